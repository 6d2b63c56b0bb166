// A recorded order gives what the walk of its programs gives: for every rule, sizes of many kinds, and times that
// differ at each replay.
#include "schedule/replay_again.hpp"

#include <doctest/doctest.h>

#include <random>

#include "base/error.hpp"
#include "schedule/registry.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

Problem random_times(std::mt19937& random, std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t chunks,
                     bool wires) {
  Problem problem = uniform_problem(ranks, microbatches, chunks, Time(1), Time(1), Time(1), Time(0));
  const auto below = [&](std::uint32_t n) { return std::int64_t(random() % n); };
  for (auto* times : {&problem.forward, &problem.input_gradient, &problem.weight_gradient})
    for (auto& time : *times) time = Time(1 + below(50));
  for (auto* amounts : {&problem.activation, &problem.weight_hold})
    for (auto& amount : *amounts) amount = double(below(1000)) / 7;
  for (auto& time : problem.transfer) {
    time = Time(below(40));
    if (!wires) continue;
    problem.held.push_back(Time(below(std::uint32_t(time.count()) + 1)));
    problem.wire.push_back(std::uint8_t(below(2)));
  }
  return problem;
}

bool same(const Replay& a, const Replay& b) {
  return a.cost == b.cost && a.makespan == b.makespan && a.end == b.end && a.sent == b.sent && a.busy == b.busy &&
         a.in_flight_FW == b.in_flight_FW && a.in_flight_FB == b.in_flight_FB && a.peak_memory == b.peak_memory &&
         a.actions == b.actions;
}

}  // namespace

TEST_CASE("a recorded order replays as its programs do") {
  std::mt19937 random(7);
  std::size_t compared = 0;
  for (const auto& [name, schedule] : registry()) {
    if (schedule.plan) continue;
    for (const std::uint32_t ranks : {1u, 2u, 4u, 7u})
      for (const std::uint32_t microbatches : {1u, 2u, 8u, 21u, 28u})
        for (std::uint32_t chunks = schedule.min_chunks; chunks <= std::min(schedule.max_chunks, 4u); ++chunks) {
          try {
            // Seen, recorded, and replayed from the record.
            for (int turn = 0; turn < 6; ++turn) {
              const auto problem = random_times(random, ranks, microbatches, chunks, turn != 2);
              CAPTURE(name);
              CAPTURE(ranks);
              CAPTURE(microbatches);
              CAPTURE(chunks);
              CAPTURE(turn);
              const auto transfers = turn % 2 ? Transfers::blocking : Transfers::free;
              const auto walked = replay(schedule, problem, {.transfers = transfers});
              CHECK(same(replay_again(schedule, problem, transfers), walked));
              ++compared;
            }
          } catch (const UserError&) {  // not a size of this schedule
          }
        }
  }
  CHECK(compared > 1000);
}

TEST_CASE("a recorded order is refused with a problem that its schedule refuses") {
  const auto& schedule = registry().at("1f1b");
  auto problem = uniform_problem(3, 5, 1, Time(1), Time(1), Time(1), Time(0));
  for (int turn = 0; turn < 3; ++turn) replay_again(schedule, problem, Transfers::free);
  problem.forward[1] = Time(-1);
  CHECK_THROWS_AS(replay_again(schedule, problem, Transfers::free), UserError);
}
