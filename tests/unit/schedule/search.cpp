// The searches exact and best: problems solved by hand, plain enumeration as an oracle, and properties of every answer.
#include <doctest/doctest.h>

#include <array>
#include <climits>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/search/branch_and_bound.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

struct Answer {
  Time cost, bound;
  bool optimal;
};

Answer ask(const char* name, const Problem& problem) {
  const Schedule ready = planned(registry().at(name), problem);
  return {replay(ready, problem).cost, ready.lower_bound.value(), ready.optimal.value()};
}

void check_optimum(const Problem& problem, Time cost) {
  for (const char* name : {"exact", "best"}) {
    CAPTURE(name);
    const Answer answer = ask(name, problem);
    CHECK(answer.cost == cost);
    CHECK(answer.bound == cost);
    CHECK(answer.optimal);
  }
}

// Enumerates every order in which each action starts as early as it can after the earlier ones: no bound, no dominance.
class Enumeration {
 public:
  Enumeration(const Problem& problem, Placement placement)
      : problem_(problem),
        placement_(placement),
        free_(problem.ranks),
        first_(problem.ranks, -1),
        memory_(problem.ranks),
        done_(problem.stages()),
        end_(problem.stages(), std::array<std::vector<std::int64_t>, 3>()) {
    for (auto& stage : end_)
      for (auto& kind : stage) kind.assign(problem.microbatches, 0);
    extend(std::size_t(problem.stages()) * problem.microbatches * 3, 0);
  }
  std::int64_t best() const { return best_; }

 private:
  std::int64_t hop(std::uint32_t s) const {
    const bool same = rank_of(placement_, problem_, s) == rank_of(placement_, problem_, s + 1);
    return same ? 0 : problem_.transfer[s].count();
  }

  void extend(std::size_t left, std::int64_t last) {
    if (left == 0) {
      std::int64_t cost = 0;
      for (std::uint32_t r = 0; r < problem_.ranks; ++r) cost = std::max(cost, free_[r] - first_[r]);
      best_ = std::min(best_, cost);
      return;
    }
    for (std::uint32_t s = 0; s < problem_.stages(); ++s)
      for (std::size_t kind = 0; kind < 3; ++kind) {
        const std::uint32_t r = rank_of(placement_, problem_, s), k = done_[s][kind];
        if (k == problem_.microbatches || (kind > 0 && k == done_[s][kind - 1])) continue;
        std::int64_t start = free_[r];
        if (kind == 0 && s > 0) {
          if (done_[s - 1][0] <= k) continue;
          start = std::max(start, end_[s - 1][0][k] + hop(s - 1));
        }
        if (kind == 1 && s + 1 < problem_.stages()) {
          if (done_[s + 1][1] <= k) continue;
          start = std::max(start, end_[s + 1][1][k] + hop(s));
        }
        if (start < last) continue;
        const double hold = problem_.weight_hold[s], activation = problem_.activation[s];
        const double grows = kind == 0 ? activation : kind == 1 ? hold - activation : -hold;
        if (problem_.memory_limit && memory_[r] + grows > *problem_.memory_limit) continue;
        const auto& times = kind == 0   ? problem_.forward
                            : kind == 1 ? problem_.input_gradient
                                        : problem_.weight_gradient;
        const auto before = std::array{free_[r], first_[r]};
        free_[r] = start + times[s].count();
        if (first_[r] < 0) first_[r] = start;
        memory_[r] += grows;
        ++done_[s][kind];
        end_[s][kind][k] = free_[r];
        if (free_[r] - first_[r] < best_) extend(left - 1, start);
        --done_[s][kind];
        memory_[r] -= grows;
        free_[r] = before[0], first_[r] = before[1];
      }
  }

  const Problem& problem_;
  Placement placement_;
  std::vector<std::int64_t> free_, first_;
  std::vector<double> memory_;
  std::vector<std::array<std::uint32_t, 3>> done_;
  std::vector<std::array<std::vector<std::int64_t>, 3>> end_;
  std::int64_t best_ = INT64_MAX;
};

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + std::uint32_t(engine_()) % (high - low + 1);
  }

 private:
  std::mt19937 engine_;
};

Problem random_problem(Dice& dice, std::uint32_t p, std::uint32_t m, std::uint32_t v) {
  Problem problem = uniform_problem(p, m, v, Time(), Time(), Time(), Time());
  for (auto* times : {&problem.forward, &problem.input_gradient, &problem.weight_gradient, &problem.transfer})
    for (Time& t : *times) t = Time(dice.between(0, 9));
  for (std::uint32_t s = 0; s < problem.stages(); ++s) {
    problem.activation[s] = dice.between(1, 4);
    problem.weight_hold[s] = dice.between(0, std::uint32_t(problem.activation[s]));
  }
  return problem;
}

}  // namespace

TEST_CASE("one rank only works") {
  // Two micro-batches of 3 + 4 + 5.
  check_optimum(uniform_problem(1, 2, 1, Time(3), Time(4), Time(5), Time(7)), Time(24));
}

TEST_CASE("two ranks, one micro-batch: the chain of its actions") {
  // F 0..10, transfer, F 11..21, I 21..31, transfer, I 32..42, W 42..52.
  check_optimum(uniform_problem(2, 1, 1, Time(10), Time(10), Time(10), Time(1)), Time(52));
}

TEST_CASE("two ranks, two micro-batches") {
  // Rank 0 has 20 of forwards before its first gradient, which the other rank hands over at 30: 60 of work and 10 idle.
  Problem problem = uniform_problem(2, 2, 1, Time(10), Time(10), Time(10), Time(0));
  check_optimum(problem, Time(70));
  // Room for one: rank 0 waits 10..30 with its first forward, has its gradient at 40 and starts the second one; that
  // one's gradient arrives at 70 (F 50..60, I 60..70 on rank 1), I 70..80, W 80..90. The first W fits in between.
  problem.memory_limit = 1;
  check_optimum(problem, Time(90));
}

TEST_CASE("branch and bound finds the optimum of a plain enumeration") {
  Dice dice(5);
  for (int n = 0; n < 80; ++n) {
    const std::array<std::array<std::uint32_t, 3>, 4> sizes{{{2, 2, 1}, {2, 3, 1}, {3, 2, 1}, {2, 2, 2}}};
    const auto [p, m, v] = sizes[dice.between(0, 3)];
    Problem problem = random_problem(dice, p, m, v);
    const Placement placement = v == 2 && dice.between(0, 1) ? Placement::vee : Placement::loop;
    if (dice.between(0, 3)) problem.memory_limit = search::least_limit(problem, placement) + dice.between(0, 4);
    CAPTURE(n);
    const std::int64_t optimum = Enumeration(problem, placement).best();
    const search::Model model(problem, placement);
    const auto outcome = search::branch_and_bound(model, 1'000'000, {});
    CHECK(outcome.cost == optimum);
    CHECK(outcome.lower_bound == optimum);
  }
}

TEST_CASE("answers are legal, within the limit, not below their bound, and the same every time") {
  Dice dice(11);
  for (int n = 0; n < 12; ++n) {
    const std::uint32_t p = dice.between(1, 4), m = dice.between(1, 6), v = dice.between(1, 2);
    Problem problem = random_problem(dice, p, m, v);
    problem.memory_limit = search::least_limit(problem, Placement::vee) + dice.between(0, 6);
    if (v == 2) problem.memory_limit = *problem.memory_limit + search::least_limit(problem, Placement::loop);
    for (const char* name : {"exact", "best"}) {
      if (v == 2 && std::string(name) == "exact") continue;
      CAPTURE(name);
      CAPTURE(n);
      const Schedule ready = planned(registry().at(name), problem);
      const Replay result = replay(ready, problem);
      CHECK_NOTHROW(check_zero_buffer(ready, problem));
      for (double peak : result.peak_memory) CHECK(peak <= *problem.memory_limit);
      CHECK(result.cost >= ready.lower_bound.value());
      CHECK(order_sha256(registry().at(name), problem) == order_sha256(ready, problem));
      if (v == 1) CHECK(result.cost <= replay(registry().at("zb-auto"), problem).cost);
    }
  }
}

TEST_CASE("a search cut short says so and still answers") {
  Problem problem = uniform_problem(8, 16, 1, Time(20), Time(21), Time(13), Time(2));
  problem.weight_hold.assign(8, 0.5);
  problem.memory_limit = 8;
  problem.time_limit = Time(1);
  const Answer exact = ask("exact", problem);
  CHECK_FALSE(exact.optimal);
  // Nobody has time for the proof that closes the gap between the first bound and the best rule.
  CHECK(exact.bound < exact.cost);
  CHECK(exact.cost <= replay(registry().at("zb-h1"), problem).cost);
  CHECK(ask("best", problem).cost <= exact.cost);
}

TEST_CASE("a full backward that is faster than its halves is no reason to claim an optimum") {
  Problem problem = uniform_problem(2, 2, 1, Time(10), Time(10), Time(10), Time(0));
  problem.backward = {Time(12), Time(12)};
  const Answer exact = ask("exact", problem);
  CHECK(exact.cost == Time(70));
  // 1F1B: rank 0 F F, waits for F + B = 22 of rank 1 after 10, B 32..44, B 54..66 (rank 1: B 42..54).
  CHECK(replay(registry().at("1f1b"), problem).cost == Time(66));
  CHECK_FALSE(exact.optimal);
  CHECK(exact.bound <= Time(66));
  CHECK(ask("best", problem).cost <= Time(66));
}

TEST_CASE("a limit below one micro-batch is refused with the least legal one") {
  Problem problem = uniform_problem(2, 2, 1, Time(10), Time(10), Time(10), Time(0));
  problem.activation = {3, 5};
  problem.memory_limit = 4;
  for (const char* name : {"exact", "best"}) {
    std::string message;
    try {
      replay(registry().at(name), problem);
    } catch (const UserError& error) {
      message = error.what();
    }
    CAPTURE(message);
    CHECK(message.find("memory_limit 4") != std::string::npos);
    CHECK(message.find("at least 5") != std::string::npos);
  }
  problem.memory_limit = 5;
  CHECK_NOTHROW(replay(registry().at("exact"), problem));
}
