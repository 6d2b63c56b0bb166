// Schedules with two chunks per rank in a V, and groups of interleaved ones: their memory, their refusals, and the
// effect of a memory limit.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

// Every chunk's activation is held until its weight gradient, so memory counts chunks.
Problem chunks_problem(std::uint32_t p, std::uint32_t m) {
  Problem problem = uniform_problem(p, m, 2, Time(10), Time(12), Time(8), Time(1));
  problem.weight_hold = problem.activation;
  return problem;
}

double most(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

std::string refusal(const char* name, const Problem& problem) {
  try {
    check(registry().at(name), problem);
  } catch (const UserError& error) {
    return error.what();
  }
  return "legal";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// 1F1B holds p micro-batches on rank 0, 2p chunks. A micro-batch of V-Min is gone after 4p cells (plus up to 2) and one
// comes every 6, each holding two chunks; V-Half after 6p (plus up to 3). The peak over ranks is 2 floor((p + 4) / 3)
// and 2 floor((p + 2) / 2) chunks, and of ZB-V 2p.
TEST_CASE("v-min, v-half and zb-v-hand hold a third, a half and all of what 1f1b holds") {
  for (std::uint32_t p = 2; p <= 20; ++p) {
    CAPTURE(p);
    const Problem problem = chunks_problem(p, 4 * p);
    CHECK(most(replay(registry().at("v-min"), problem).peak_memory) == 2 * ((p + 4) / 3));
    CHECK(most(replay(registry().at("v-half"), problem).peak_memory) == 2 * ((p + 2) / 2));
    CHECK(most(replay(registry().at("zb-v-hand"), problem).peak_memory) == 2 * p);
  }
}

// With all actions of 10 and free transfers V-Half waits 3p - 7 forwards for even p, 3p - 4 for odd p.
TEST_CASE("the bubble of v-half") {
  for (std::uint32_t p = 3; p <= 12; ++p) {
    CAPTURE(p);
    const std::int64_t m = 2 * p;
    const Problem problem = uniform_problem(p, std::uint32_t(m), 2, Time(10), Time(10), Time(10), Time(0));
    const Time bubble = replay(registry().at("v-half"), problem).cost - m * Time(60);
    CHECK(bubble == Time(10 * (3 * std::int64_t(p) - (p % 2 == 0 ? 7 : 4))));
  }
}

TEST_CASE("an order that does not adapt is refused beyond the limit, with the limit that it needs") {
  Problem problem = chunks_problem(4, 8);
  problem.memory_limit = 6;
  CHECK(refusal("v-half", problem) == "legal");
  problem.memory_limit = 5;
  CHECK(contains(refusal("v-half", problem), "set memory_limit to 6"));
  CHECK(refusal("v-min", problem) == "legal");
  CHECK(contains(refusal("1f1b-v", problem), "set memory_limit to 6"));
}

TEST_CASE("v-adaptive keeps every limit, and a higher one never costs more") {
  for (std::uint32_t p = 1; p <= 5; ++p) {
    Problem problem = chunks_problem(p, 2 * p + 1);
    std::optional<Time> before;
    for (std::uint32_t limit = 2; limit <= 2 * p + 1; ++limit) {
      CAPTURE(p);
      CAPTURE(limit);
      problem.memory_limit = limit;
      const Replay got = replay(registry().at("v-adaptive"), problem);
      CHECK(most(got.peak_memory) <= limit);
      if (before) CHECK(got.cost <= *before);
      before = got.cost;
    }
    problem.memory_limit.reset();  // no limit is a limit of p micro-batches
    CHECK(replay(registry().at("v-adaptive"), problem).cost == *before);
    problem.memory_limit = 1;
    CHECK(contains(refusal("v-adaptive", problem), "set memory_limit to 2"));
  }
}

TEST_CASE("groups that cannot run are refused with the nearest that can") {
  Problem problem = uniform_problem(4, 8, 2, Time(10), Time(12), Time(8), Time(1));
  problem.group = 1;
  CHECK(contains(refusal("grouped-interleaved", problem), "set group to 2"));
  problem.group = 5;
  CHECK(contains(refusal("grouped-interleaved", problem), "set group to 4"));
  problem.group.reset();
  problem.microbatches = 9;  // 2 rounds of 4.5; 10 make 2 rounds of 5
  CHECK(contains(refusal("interleaved-zb", problem), "set microbatches to 8"));
  problem = uniform_problem(4, 8, 3, Time(10), Time(12), Time(8), Time(1));
  problem.group = 1;
  CHECK(contains(refusal("interleaved-zb", problem), "set group to 4"));
  problem.group = 4;
  CHECK(refusal("interleaved-zb", problem) == "legal");
}
