// The promises of every schedule of a registry, on a grid and on seeded random problems: each forward and backward of
// each (stage, micro-batch) exactly once, no deadlock even without buffers, and cost and peaks equal to its closed
// form. Used for our registry (every_schedule.cpp) and for the worked example of CONTRIBUTING.md.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

namespace rehearsal::schedule::contract {

inline bool legal(const Schedule& schedule, const Problem& problem) {
  try {
    check(schedule, problem);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Counts actions of the bare programs, independently of the replay's own legality check.
inline void check_order(const Schedule& unplanned, const Problem& problem) {
  const Schedule schedule = planned(unplanned, problem);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<int, 4>> seen;
  std::uint64_t actions = 0;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    Order order = schedule.order(problem, rank);
    for (; order.next(); ++actions) {
      const Action action = order.value();
      REQUIRE(rank_of(schedule.placement, problem, action.stage) == rank);
      ++seen[{action.stage, action.microbatch}][static_cast<std::size_t>(action.op)];
    }
  }
  // Two directions share the micro-batches; with pieces, each piece is a unit of its own.
  const std::uint32_t directions = schedule.placement == Placement::bidirectional ? 2 : 1;
  const std::uint32_t cut = schedule.cuts_sequences ? problem.pieces.value_or(2) : 1;
  const std::uint32_t units = problem.microbatches / directions * cut;
  CHECK(seen.size() == std::size_t(problem.stages()) * units);
  bool once = true;
  for (const auto& [cell, n] : seen) {
    const auto [forward, input, weight, full] = n;
    once = once && cell.second < units && forward == 1 && input == weight && input + full == 1;
    once = once && (schedule.splits_backward || input == 0);
  }
  CHECK(once);
  CHECK(replay(schedule, problem).actions == actions);
}

// Time of a rank's program without any waiting, pairs as one block.
inline Time work_of(const Schedule& schedule, const Problem& problem, std::uint32_t rank) {
  Time work;
  Order order = schedule.order(problem, rank);
  while (order.next()) {
    const Action action = order.value();
    if (action.overlaps_next && !problem.overlapped.empty()) {
      REQUIRE(order.next());
      work += problem.overlapped[action.stage];
    } else {
      work += share(problem.time(action), pieces(schedule, problem), action.microbatch);
    }
  }
  return work;
}

inline void check_replay(const Schedule& unplanned, const Problem& problem) {
  const Schedule schedule = planned(unplanned, problem);
  const Replay free = replay(schedule, problem);
  const Replay blocking = replay(schedule, problem, {.transfers = Transfers::blocking, .visit = {}});
  CHECK_NOTHROW(check_zero_buffer(schedule, problem));

  CHECK(free.makespan >= free.cost);
  if (schedule.lower_bound) CHECK(free.cost >= *schedule.lower_bound);
  if (schedule.optimal.value_or(false) && schedule.lower_bound) CHECK(free.cost == *schedule.lower_bound);
  // A search sees the limit, so it must keep it; and a second call gives the same answer.
  if (unplanned.plan) {
    if (problem.memory_limit)
      for (const double peak : free.peak_memory) CHECK(peak <= *problem.memory_limit);
    CHECK(order_sha256(unplanned, problem) == order_sha256(schedule, problem));
  }
  CHECK(blocking.makespan >= free.makespan);
  CHECK(blocking.busy == free.busy);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    const Time work = work_of(schedule, problem, rank);
    CHECK(free.busy[rank] == work);
    CHECK(free.cost >= work);
    CHECK(free.in_flight_FB[rank] <= free.in_flight_FW[rank]);
    CHECK(free.in_flight_FW[rank] <= std::int64_t(units(schedule, problem)) * problem.chunks);
    if (!schedule.splits_backward) CHECK(free.in_flight_FB[rank] == free.in_flight_FW[rank]);
    // Both bounds of memory: every activation in flight is held, and holds at most what its weight gradient keeps too.
    const auto most = [&](const std::vector<double>& of) { return *std::max_element(of.begin(), of.end()); };
    const auto least = [&](const std::vector<double>& of) { return *std::min_element(of.begin(), of.end()); };
    const double cut = pieces(schedule, problem), rounding = 1 + 1e-12;
    CHECK(free.peak_memory[rank] * cut * rounding >= double(free.in_flight_FB[rank]) * least(problem.activation));
    CHECK(free.peak_memory[rank] * cut <=
          double(free.in_flight_FW[rank]) * std::max(most(problem.activation), most(problem.weight_hold)) * rounding);
  }
}

// Returns whether there is a closed form.
inline bool check_closed_form(const Schedule& schedule, const Problem& problem) {
  if (!schedule.closed_form) return false;
  const auto form = schedule.closed_form(problem);
  if (!form) return false;
  const Replay got = replay(schedule, problem);
  CHECK(got.cost == form->cost);
  if (!form->in_flight.empty())
    CHECK(std::vector<double>(got.in_flight_FB.begin(), got.in_flight_FB.end()) == form->in_flight);
  return true;
}

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  // std::uniform_int_distribution differs between libraries.
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + std::uint32_t(engine_()) % (high - low + 1);
  }

 private:
  std::mt19937 engine_;
};

inline std::string describe(const Schedule& schedule, const Problem& problem) {
  std::string text = schedule.name + " p=" + std::to_string(problem.ranks) +
                     " m=" + std::to_string(problem.microbatches) + " v=" + std::to_string(problem.chunks);
  if (problem.group) text += " group=" + std::to_string(*problem.group);
  if (problem.pieces) text += " pieces=" + std::to_string(*problem.pieces);
  if (problem.extra_warmup) text += " extra=" + std::to_string(*problem.extra_warmup);
  return text;
}

// Every schedule describes itself.
inline void says_what_it_is(const Registry& shelf) {
  for (const auto& [name, schedule] : shelf) {
    CHECK(name == schedule.name);
    CHECK(schedule.summary.size() > 20);
    CHECK(bool(schedule.order) != bool(schedule.plan));
    CHECK(schedule.min_chunks <= schedule.max_chunks);
  }
}

// A small grid: every cell once, replay and rendezvous complete, formulas hold.
inline void small_grid(const Registry& shelf) {
  for (const auto& [name, schedule] : shelf) {
    std::size_t run = 0, formulas = 0;
    for (std::uint32_t p = 1; p <= 6; ++p)
      for (std::uint32_t m = 1; m <= 13; ++m)
        for (std::uint32_t v = schedule.min_chunks; v <= std::min(schedule.max_chunks, 4u); ++v) {
          Problem problem = uniform_problem(p, m, v, Time(10), Time(12), Time(8), Time(1));
          CAPTURE(describe(schedule, problem));
          if (!legal(schedule, problem)) continue;
          ++run;
          check_order(schedule, problem);
          check_replay(schedule, problem);
          formulas += check_closed_form(schedule, problem);
        }
    // Pipelines that are fed from both ends need more micro-batches to run at all.
    for (std::uint32_t p = 2; p <= 8 && run < 30; p += 2)
      for (std::uint32_t m = 14; m <= 32; m += 2) {
        Problem problem = uniform_problem(p, m, schedule.min_chunks, Time(10), Time(12), Time(8), Time(1));
        CAPTURE(describe(schedule, problem));
        if (!legal(schedule, problem)) continue;
        ++run;
        check_order(schedule, problem);
        check_replay(schedule, problem);
        formulas += check_closed_form(schedule, problem);
      }
    CAPTURE(name);
    CHECK(run >= 30);
    CHECK((schedule.closed_form == nullptr) == (formulas == 0));
  }
}

// Random problems with equal stages: closed forms hold wherever a schedule has one.
inline void random_alike(const Registry& shelf) {
  Dice dice(20240110);
  for (const auto& [name, schedule] : shelf) {
    if (!schedule.closed_form) continue;
    std::size_t formulas = 0;
    for (int n = 0; n < 600; ++n) {
      const std::uint32_t p = dice.between(1, 9),
                          v = dice.between(schedule.min_chunks, std::min(schedule.max_chunks, 5u));
      const std::uint32_t m = dice.between(0, 1) ? p * dice.between(1, 4) : dice.between(1, 40);
      Problem problem = uniform_problem(p, m, v, Time(dice.between(1, 30)), Time(dice.between(1, 30)),
                                        Time(dice.between(0, 30)), Time(dice.between(0, 15)));
      if (dice.between(0, 1)) problem.backward.assign(problem.stages(), Time(dice.between(1, 60)));
      CAPTURE(describe(schedule, problem));
      if (legal(schedule, problem)) formulas += check_closed_form(schedule, problem);
    }
    CAPTURE(name);
    CHECK(formulas >= 50);
  }
}

// Random problems with different stages and all options.
inline void random_different(const Registry& shelf) {
  Dice dice(7), knobs(11);
  for (const auto& [name, schedule] : shelf) {
    for (int n = 0; n < 150; ++n) {
      const std::uint32_t p = dice.between(1, 8), m = dice.between(1, 30);
      const std::uint32_t v = dice.between(schedule.min_chunks, std::min(schedule.max_chunks, 4u));
      Problem problem = uniform_problem(p, m, v, Time(1), Time(1), Time(1), Time(1));
      for (std::uint32_t s = 0; s < problem.stages(); ++s) {
        problem.forward[s] = Time(dice.between(0, 50));
        problem.input_gradient[s] = Time(dice.between(0, 50));
        problem.weight_gradient[s] = Time(dice.between(0, 50));
        if (s + 1 < problem.stages()) problem.transfer[s] = Time(dice.between(0, 20));
        problem.activation[s] = dice.between(4, 9);
        problem.weight_hold[s] = dice.between(0, 4);
      }
      if (dice.between(0, 1))
        for (std::uint32_t s = 0; s < problem.stages(); ++s) problem.backward.push_back(Time(dice.between(0, 90)));
      if (dice.between(0, 1)) problem.group = dice.between(1, m + 2);
      if (dice.between(0, 1)) problem.extra_warmup = dice.between(0, 5);
      if (knobs.between(0, 1)) problem.pieces = knobs.between(1, 5);
      if (knobs.between(0, 1))
        for (std::uint32_t s = 0; s < problem.stages(); ++s) problem.overlapped.push_back(Time(knobs.between(0, 120)));
      CAPTURE(describe(schedule, problem));
      if (!legal(schedule, problem)) continue;
      check_order(schedule, problem);
      check_replay(schedule, problem);
      if (schedule.closed_form && problem.stages() > 1 && problem.forward[0] != problem.forward[1])
        CHECK_FALSE(schedule.closed_form(problem));
    }
  }
}

}  // namespace rehearsal::schedule::contract
