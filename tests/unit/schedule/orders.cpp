#include "base/sha256.hpp"
#include "listed.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

using Rows = std::vector<std::string>;

Problem alike(std::uint32_t p, std::uint32_t m, std::uint32_t v = 1) {
  return uniform_problem(p, m, v, Time(1), Time(1), Time(1), Time(0));
}

Rows rows(const char* name, const Problem& problem) { return order_text(registry().at(name), problem); }

}  // namespace

TEST_CASE("schedules of several chunks say what they are with one") {
  for (const auto& [name, schedule] : registry()) {
    if (schedule.one_chunk.empty()) continue;
    CAPTURE(name);
    for (const std::uint32_t p : {2u, 3u, 5u})
      for (const std::uint32_t m : {p, 2 * p, 4 * p}) {
        const Problem problem = uniform_problem(p, m, 1, Time(7), Time(5), Time(3), Time(2));
        const Replay got = replay(schedule, problem), same = replay(registry().at(schedule.one_chunk), problem);
        CHECK(got.end == same.end);
        CHECK(got.peak_memory == same.peak_memory);
      }
  }
  CHECK(registry().at("interleaved-1f1b").one_chunk == "1f1b");
}

TEST_CASE("actions as text") {
  CHECK(to_text({0, 3, Op::forward}) == "3F0");
  CHECK(to_text({12, 0, Op::input_gradient}) == "0I12");
  CHECK(to_text({4294967294u, 65534, Op::weight_gradient}) == "65534W4294967294");
  CHECK(to_text({7, 10, Op::backward}) == "10B7");
}

TEST_CASE("the digest of an order is that of its text, over many buffers") {
  for (std::uint32_t m : {1u, 3u, 2000u}) {
    const Problem problem = alike(5, m);
    std::string text;
    for (const std::string& row : rows("zb-h1", problem)) text += (text.empty() ? "" : "\n") + row;
    CHECK(order_sha256(registry().at("zb-h1"), problem) == sha256(text));
  }
}

TEST_CASE("small orders, written out") {
  CHECK(rows("naive", alike(2, 2)) == Rows{"0F0,0B0,0F1,0B1", "1F0,1B0,1F1,1B1"});
  CHECK(rows("gpipe", alike(2, 2)) == Rows{"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"});
  CHECK(rows("1f1b", alike(2, 3)) == Rows{"0F0,0F1,0B0,0F2,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"});
  // Fewer micro-batches than ranks: the first ranks are gpipe.
  CHECK(rows("1f1b", alike(4, 1)) == Rows{"0F0,0B0", "1F0,1B0", "2F0,2B0", "3F0,3B0"});
  // Rank 0 keeps no weight gradient back, rank 1 keeps one.
  CHECK(rows("zb-h1", alike(2, 3)) ==
        Rows{"0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2", "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2"});
  // Warm-up 2(p-1-r) + (v-1)g = 4 and 2 chunks.
  CHECK(rows("interleaved-1f1b", alike(2, 2, 2)) ==
        Rows{"0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1", "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1"});
}

TEST_CASE("knobs of interleaved-1f1b") {
  Problem problem = alike(2, 3, 2);
  problem.group = 3;  // warm-up 2(p-1-r) + 3
  CHECK(rows("interleaved-1f1b", problem)[1] == "1F0,1F1,1F2,3F0,3B0,3F1,3B1,3F2,3B2,1B0,1B1,1B2");
  problem.extra_warmup = 1;
  CHECK(rows("interleaved-1f1b", problem)[1] == "1F0,1F1,1F2,3F0,3F1,3B0,3F2,3B1,3B2,1B0,1B1,1B2");
  // The last group may be shorter: 2 + 1 micro-batches.
  problem = alike(2, 3, 2);
  CHECK(rows("interleaved-1f1b", problem)[1] == "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,3F2,1B1,3B2,1B2");
  // One chunk: nothing to interleave.
  CHECK(rows("interleaved-1f1b", alike(3, 5)) == rows("1f1b", alike(3, 5)));

  // Four ranks in groups of two: rank 0 waits for the second half of a chunk that rank 3 would start too late.
  problem = alike(4, 8, 2);
  problem.group = 2;
  const auto message = user_error([&] { check(registry().at("interleaved-1f1b"), problem); });
  check_contains(message, "8 micro-batches in groups of 2 deadlock on 4 ranks");
  check_contains(message, "set group to 4");
  problem.group = 4;
  CHECK_NOTHROW(check(registry().at("interleaved-1f1b"), problem));
  // 5 = 4 + 1: the lone micro-batch comes round faster than the pipeline is deep, so one group of 5 is needed.
  problem = alike(4, 5, 3);
  check_contains(user_error([&] { check(registry().at("interleaved-1f1b"), problem); }), "set group to 5");
}

TEST_CASE("placement of stages") {
  const Problem problem = alike(3, 1, 2);
  const std::vector<std::uint32_t> loop{0, 1, 2, 0, 1, 2}, vee{0, 1, 2, 2, 1, 0};
  for (std::uint32_t s = 0; s < 6; ++s) {
    CHECK(rank_of(Placement::loop, problem, s) == loop[s]);
    CHECK(rank_of(Placement::vee, problem, s) == vee[s]);
    CHECK(stage_of(Placement::loop, problem, loop[s], s / 3) == s);
    CHECK(stage_of(Placement::vee, problem, vee[s], s / 3) == s);
  }
}

TEST_CASE("uniform times look only at transfers that happen") {
  Problem problem = uniform_problem(2, 1, 2, Time(1), Time(2), Time(3), Time(4));
  problem.transfer[1] = Time(9);  // stages 1 and 2: one rank on the V, two on the loop
  CHECK_FALSE(uniform_times(Placement::loop, problem));
  REQUIRE(uniform_times(Placement::vee, problem));
  CHECK(uniform_times(Placement::vee, problem)->transfer == Time(4));
  CHECK(uniform_times(Placement::vee, problem)->split() == Time(6));
  CHECK(uniform_times(Placement::vee, problem)->combined() == Time(6));
  problem.backward = {Time(7), Time(7), Time(7), Time(7)};
  CHECK(uniform_times(Placement::vee, problem)->split() == Time(6));
  CHECK(uniform_times(Placement::vee, problem)->combined() == Time(8));
  problem.backward[2] = Time(8);
  CHECK_FALSE(uniform_times(Placement::vee, problem));
  problem.backward.clear();
  problem.input_gradient[3] = Time(5);
  CHECK_FALSE(uniform_times(Placement::vee, problem));
  CHECK(uniform_times(Placement::loop, uniform_problem(1, 1, 3, Time(1), Time(1), Time(1), Time(7)))->transfer ==
        Time(0));
}

TEST_CASE("problems that do not fit say what to change") {
  const auto message = [](const char* name, const Problem& problem) {
    return user_error([&] { check(registry().at(name), problem); });
  };
  CHECK(message("1f1b", alike(2, 1)).empty());
  check_contains(message("1f1b", alike(0, 1)), "at least 1 pipeline rank");
  check_contains(message("1f1b", alike(1, 0)), "at least 1 micro-batch");
  check_contains(message("zb-h1", alike(2, 2, 3)), "schedule zb-h1: takes 1 chunk per rank, not 3; set chunks to 1");
  check_contains(message("interleaved-1f1b", alike(2, 2, 0)),
                 "takes 1 or more chunks per rank, not 0; set chunks to 1");
  check_contains(message("interleaved-1f1b", alike(4096, 1, 16)), "4096 ranks x 16 chunks = 65536 stages");

  Problem problem = alike(2, 2);
  problem.forward.pop_back();
  check_contains(message("gpipe", problem), "forward has 1 values, but needs 2: one per stage");
  problem = alike(2, 2);
  problem.transfer.push_back(Time(1));
  check_contains(message("gpipe", problem), "transfer has 2 values, but needs 1");
  problem = alike(2, 2);
  problem.weight_gradient[1] = Time(-5);
  check_contains(message("gpipe", problem), "weight_gradient of stage 1 is negative");
  problem = alike(2, 2);
  problem.backward = {Time(1)};
  check_contains(message("gpipe", problem), "backward has 1 values, but needs 2");
  problem = alike(2, 2);
  problem.activation[1] = -1;
  check_contains(message("gpipe", problem), "activation of stage 1 is -1");
  problem = alike(2, 2);
  problem.memory_limit = 0;
  check_contains(message("gpipe", problem), "memory_limit is 0");
  problem = alike(2, 2);
  problem.group = 0;
  check_contains(message("gpipe", problem), "group is 0");
  // Whoever replays or prints a problem gets the same check.
  check_contains(user_error([&] { replay(registry().at("gpipe"), problem); }), "group is 0");
  check_contains(user_error([&] { order_sha256(registry().at("gpipe"), problem); }), "group is 0");
}

TEST_CASE("closed forms stay silent outside their range") {
  const auto form = [](const char* name, const Problem& problem) { return registry().at(name).closed_form(problem); };
  CHECK(form("1f1b", alike(4, 8)));
  CHECK_FALSE(form("1f1b", alike(4, 6)));   // p must divide m
  CHECK_FALSE(form("zb-h1", alike(4, 4)));  // m > p
  CHECK(form("zb-h1", alike(4, 5)));
  CHECK_FALSE(form("zb-h1", uniform_problem(4, 8, 1, Time(4), Time(4), Time(5), Time(0))));             // W > F
  CHECK_FALSE(form("interleaved-1f1b", uniform_problem(4, 8, 2, Time(1), Time(1), Time(1), Time(2))));  // C > F
  // 8 micro-batches of 3 + 3 more to fill and drain; zb-h1 fills with F + I - W = 1 per rank.
  CHECK(form("1f1b", alike(4, 8))->cost == Time(33));
  CHECK(form("zb-h1", alike(4, 8))->cost == Time(27));
  CHECK(form("zb-h1", alike(4, 8))->in_flight == std::vector<double>{4, 3, 2, 1});
}
