// Schedules with overlapped pairs, two directions or pieces of sequences, as their own projects run them, and the table
// that DualPipe's README compares them by (tests/golden/schedules/README.md).
#include <iterator>
#include <map>
#include <sstream>

#include "reference_cases.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

namespace {

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace

TEST_CASE("dualpipe and dualpipev as deepseek-ai/DualPipe steps through them") {
  reference::each_case("dualpipe.jsonl", 78, [](const json& row) {
    Problem problem = reference::problem_of(row);
    problem.overlapped.assign(problem.stages(), Time(row.at("FB").get<std::int64_t>()));
    reference::compare(registry().at(row.at("gen").get<std::string>()), problem, row);
  });
}

// Tokens: D down, U up; the number counts pipeline instances, two to a unit of p micro-batches; f forward, b backward,
// s the gradient reduction of an instance, which is no part of an order.
TEST_CASE("chimera in the order of Shigangli/Chimera") {
  const Schedule& schedule = registry().at("chimera");
  reference::each_case("chimera.jsonl", 4, [&](const json& row) {
    CAPTURE(row.at("id").get<std::string>());
    const std::uint32_t p = row.at("p");
    const Problem problem = uniform_problem(p, row.at("m"), 2, Time(1), Time(1), Time(0), Time(0));
    for (std::uint32_t rank = 0; rank < p; ++rank) {
      CAPTURE(rank);
      std::vector<std::string> expected;
      for (const std::string& token : words(row.at("ranks").at(rank)))
        if (token != "." && token.back() != 's') expected.push_back(token);
      std::map<std::string, std::uint32_t> seen;  // how often a token has come: micro-batches are not in the traces
      std::vector<std::string> tokens;
      for (Order order = schedule.order(problem, rank); order.next();) {
        const Action action = order.value();
        const bool up = action.stage >= p;
        tokens.push_back((up ? "U" : "D") + std::to_string(action.microbatch / (p / 2) * 2 + up) +
                         (action.op == Op::forward ? "f" : "b"));
        CHECK(action.microbatch % (p / 2) == seen[tokens.back()]++);
      }
      CHECK(tokens == expected);
    }
    // Slots of equal length: whatever the planner leaves idle between the first and the last action of a rank.
    std::size_t longest = 0;
    for (std::uint32_t rank = 0; rank < p; ++rank) {
      const auto slots = words(row.at("ranks").at(rank));
      std::size_t first = 0, last = 0, syncs_before = 0, syncs = 0;
      while (slots[first] == ".") ++first;
      for (std::size_t n = 0; n < slots.size(); ++n) {
        if (slots[n].back() == 's') ++syncs;
        if (slots[n].back() == 'b') last = n, syncs_before = syncs;
      }
      // The planner fills a slot that waits with a reduction; none makes the pipeline longer.
      CHECK(syncs_before <= 1);
      longest = std::max(longest, last - first + 1);
    }
    CHECK(replay(schedule, problem).cost == Time(std::int64_t(longest)));
  });
}

TEST_CASE("seq1f1b in the order of its authors' generator") {
  const Schedule& schedule = registry().at("seq1f1b");
  reference::each_case("seq1f1b.jsonl", 5, [&](const json& row) {
    CAPTURE(row.at("id").get<std::string>());
    Problem problem = uniform_problem(row.at("p"), row.at("m"), 1, Time(20), Time(20), Time(20), Time(1));
    problem.pieces = row.at("splits").get<std::uint32_t>();
    const std::vector<std::string> rows = order_text(schedule, problem);
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
      std::string expected;  // theirs is F0.1, the house's 3F0.1 with the stage in front
      for (const std::string& token : words(row.at("ranks").at(rank)))
        expected += (expected.empty() ? "" : ",") + std::to_string(rank) + token;
      CHECK(rows[rank] == expected);
    }
    CHECK_NOTHROW(replay(schedule, problem));
    CHECK_NOTHROW(check_zero_buffer(schedule, problem));
  });
}
