// Reading orders from files: what a good file becomes, and where and how a wrong one is refused.
#include "schedule/csv.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "listed.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

struct Case {
  const char* what;
  const char* text;
  const char* place;    // line:column of the first error
  const char* message;  // part of it
};

// Two ranks, one stage each, two micro-batches: 1F1B is 0F0,0F1,0B0,0B1 above 1F0,1B0,1F1,1B1.
constexpr Case kBad[] = {
    {"empty file", "", "1:1", "the file has no cells"},
    {"only sharding", "0UNSHARD\n", "1:9", "the file has no forward and no backward"},
    {"only commas", ",,\n", "1:1", "the file has no cells"},
    {"a rank without cells", "0F0,0B0\n\n1F0,1B0\n", "2:1", "rank 1 has no cell"},
    {"no action", "0F0,hello,0B0\n", "1:5", "'hello' is not an action"},
    {"no micro-batch", "0F0,0B\n", "1:5", "'0B' is not an action"},
    {"trailing text", "0F0,0B0x\n", "1:5", "'0B0x' is not an action"},
    {"stage too large", "0F0,99999F0\n", "1:5", "is not an action"},
    {"micro-batch too large", "0F99999999999,0B0\n", "1:1", "is not an action"},
    {"open pair", "0F0,(0F1;0B0\n", "1:5", "is not an overlapped pair"},
    {"pair of two forwards", "0F0,(0F1;0F2)OVERLAP_F_B\n", "1:5", "is not an overlapped pair"},
    {"pair with a message", "(0F0;0SEND_F0)OVERLAP_F_B\n", "1:1", "is not an overlapped pair"},
    {"two dialects", "0F0,0I0,0W0,0F1,0BW1\n", "1:17", "mixes two dialects"},
    {"piece missing", "0F0.0,0F0.1,0B0.1,0B0\n", "1:19", "does not"},
    {"wrong rank", "0F0,0F1,0B0,0B1\n1F0,1B0,0F1,1F1,1B1\n", "2:9", "stage 0 is on rank 0"},
    {"stage missing", "0F0,0B0\n2F0,2B0\n", "2:1", "there is no stage 1"},
    {"unequal chunks", "0F0,1F0,1B0,0B0\n2F0,2B0\n", "2:1", "rank 1 has 1 stage, but rank 0 has 2"},
    {"forward twice", "0F0,0F1,0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n", "1:9",
     "already runs in rank 0, cell 0 (line 1, column 1)"},
    {"micro-batch out of range", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B7\n", "2:13", "so the last one is 1"},
    {"forward missing", "0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n", "2:12", "rank 1 ends without 1F1"},
    {"backward missing", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", "2:12", "rank 1 ends without 1B1"},
    {"weight gradient missing", "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1\n", "2:20", "rank 1 ends without 1W1"},
    {"backward before forward", "0F0,0F1,0B0,0B1\n1F0,1B0,1B1,1F1\n", "2:9", "runs before 1F1 on the same rank"},
    {"backward twice", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B0,1B1\n", "2:13", "already done"},
    {"weight before input", "0F0,0W0,0I0\n", "1:5", "runs before 0I0"},
    {"weight after a full backward", "0F0,0B0,0F1,0I1,0W1,0W0\n", "1:21", "already done"},
    {"chunks of one rank", "1F0,0F0,1B0,0B0\n", "1:1", "runs before 0F0 on the same rank"},
    {"gradients of one rank", "0F0,1F0,0B0,1B0\n", "1:9", "runs before the backward of stage 1 of micro-batch 0"},
    {"pair that needs itself", "0F0,0F1,0B0,0B1\n1F0,(1F1;1B1)OVERLAP_F_B,1B0\n", "2:5", "runs before 1F1"},
    {"pieces forwards", "0F0.1,0F0.0,0B0.1,0B0.0\n", "1:1", "runs before 0F0.0"},
    {"pieces backwards", "0F0.0,0F0.1,0B0.0,0B0.1\n", "1:13", "runs before 0B0.1"},
    {"send too early", "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "1:1", "has not run yet"},
    {"receive missing", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n", "2:1", "runs before 1RECV_F0"},
    {"receive too late", "0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "1:14", "runs before 0RECV_B0"},
    {"send missing", "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "1:17", "rank 0 ends without 0SEND_F0"},
    {"message twice", "0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "1:14",
     "is already listed on this rank"},
    // Rank 0 wants the gradient of 0 before it gives the activation of 1, which rank 1 wants first.
    {"deadlock", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "1:5",
     "waits for 1B0 in rank 1, cell 3 (line 2, column 13), which rank 1 runs only after 1F1 in rank 1, cell 0"},
};

std::vector<Diagnostic> errors(const std::string& text) {
  try {
    import_csv(text, "my.csv", "my");
  } catch (const UserError& error) {
    return error.diagnostics();
  }
  return {};
}

}  // namespace

TEST_CASE("wrong files are refused at their first wrong cell") {
  for (const Case& bad : kBad) {
    CAPTURE(bad.what);
    const auto found = errors(bad.text);
    REQUIRE(!found.empty());
    const auto& [where, message] = found.front();
    CHECK(where.file == "my.csv");
    CHECK(std::to_string(where.line) + ":" + std::to_string(where.column) == bad.place);
    check_contains(message, bad.message);
  }
}

TEST_CASE("all cells that cannot be read are told at once, up to twenty") {
  CHECK(errors("a,0F0,b\nc\n").size() == 3);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "x,";
  CHECK(errors(many + "0F0\n").size() == 20);
}

TEST_CASE("a deadlock names every rank that waits") {
  const auto found = errors("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  REQUIRE(found.size() == 2);
  CHECK(found[1].where.line == 2);
  check_contains(found[1].message, "rank 1, cell 0 (1F1) waits for 0F1 in rank 0, cell 2 (line 1, column 9)");
}

TEST_CASE("idle cells, spaces, quotes, CRLF and a byte order mark change nothing") {
  const auto plain = import_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "a", "a");
  const auto odd = import_csv("\xef\xbb\xbf 0F0 ,0F1,,,\"0B0\",0B1,\r\n,1F0,1B0,\t1F1,1B1\r\n\r\n", "a", "a");
  const auto problem = uniform_problem(2, 2, 1, Time(10), Time(10), Time(10), Time(1));
  CHECK(order_text(odd.schedule, problem) == order_text(plain.schedule, problem));
  CHECK(order_text(plain.schedule, problem) == std::vector<std::string>{"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"});
}

TEST_CASE("the older dialect is told by BW, or by B and W of one micro-batch") {
  const auto problem = uniform_problem(1, 2, 1, Time(10), Time(10), Time(10), Time(1));
  const auto order = [&](const char* text) { return order_text(import_csv(text, "a", "a").schedule, problem)[0]; };
  CHECK(order("0F0,0F1,0B0,0BW1,0W0\n") == "0F0,0F1,0I0,0B1,0W0");
  CHECK(order("0F0,0F1,0B0,0B1,0W0,0W1\n") == "0F0,0F1,0I0,0I1,0W0,0W1");
  CHECK(order("0F0,0F1,0B0,0B1\n") == "0F0,0F1,0B0,0B1");
}

TEST_CASE("cells of sharded weights and messages are left out with a warning") {
  const auto imported = import_csv(
      "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0RESHARD,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n", "my.csv", "my");
  REQUIRE(imported.warnings.size() == 2);
  check_contains(imported.warnings[0], "SEND and RECV");
  check_contains(imported.warnings[1], "3 UNSHARD");
  const auto problem = uniform_problem(2, 1, 1, Time(10), Time(10), Time(10), Time(1));
  CHECK(order_text(imported.schedule, problem)[0] == "0F0,0B0");
}

TEST_CASE("placements are deduced from the cells") {
  CHECK(import_csv("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", "a", "a").schedule.placement == Placement::loop);
  CHECK(import_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "a", "a").schedule.placement == Placement::vee);
  const auto both = import_csv("0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0\n", "a", "a");
  CHECK(both.schedule.placement == Placement::bidirectional);
  CHECK(both.microbatches == 2);  // one for each direction
  const auto blocks = import_csv("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n", "a", "a");
  CHECK(blocks.schedule.placement == Placement::listed);
  CHECK(blocks.stage_ranks == std::vector<std::uint32_t>{0, 0, 1, 1});
  // One hop each way: 4 F, 1, 4 B, 1.
  auto problem = uniform_problem(2, 1, 2, Time(10), Time(20), Time(0), Time(1));
  problem.stage_ranks = blocks.stage_ranks;
  CHECK(replay(blocks.schedule, problem).makespan.count() == 122);
}

TEST_CASE("an order from a file fits only its own sizes") {
  const auto imported = import_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "my.csv", "my");
  const auto refused = [&](std::uint32_t p, std::uint32_t m) {
    return user_error([&] { check(imported.schedule, uniform_problem(p, m, 1, Time(1), Time(1), Time(1), Time(0))); });
  };
  CHECK(refused(2, 2).empty());
  check_contains(refused(4, 2), "set pipeline to 2");
  check_contains(refused(2, 4), "set microbatches to 2");
}
