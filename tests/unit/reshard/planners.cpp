// Planners against exhaustive search, against each other on larger problems, and by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "reshard/bounds.hpp"
#include "reshard/registry.hpp"
#include "reshard/search/exact.hpp"
#include "reshard/search/list_search.hpp"
#include "reshard/transfers.hpp"

using namespace rehearsal;
using namespace rehearsal::reshard;

namespace {

Problem problem_of(
    std::uint32_t senders, std::uint32_t receivers,
    std::vector<std::tuple<std::vector<std::uint32_t>, std::vector<std::uint32_t>, std::int64_t>> tasks) {
  Problem problem{senders, receivers, senders, {}, 0, false};
  for (auto& [from, to, work] : tasks) {
    Task task{from, to, work, {}, {}};
    for (const auto s : from) task.replicas.push_back({s, s});
    problem.tasks.push_back(task);
  }
  return problem;
}

Problem random_problem(Random& random, std::uint32_t senders, std::uint32_t receivers, std::uint64_t tasks,
                       std::uint64_t longest) {
  std::vector<std::tuple<std::vector<std::uint32_t>, std::vector<std::uint32_t>, std::int64_t>> list;
  const auto choose = [&](std::uint32_t of) {
    std::vector<std::uint32_t> ids;
    for (std::uint32_t i = 0; i < of; i++)
      if (random.below(2)) ids.push_back(i);
    if (ids.empty()) ids.push_back(std::uint32_t(random.below(of)));
    return ids;
  };
  for (std::uint64_t t = 0; t < tasks; t++)
    list.emplace_back(choose(senders), choose(receivers), std::int64_t(1 + random.below(longest)));
  return problem_of(senders, receivers, std::move(list));
}

// All orders with all choices of senders. Some order lists a shortest schedule by its starts, so none is missed.
std::int64_t exhaustive(const Problem& problem) {
  auto order = natural_order(problem);
  std::int64_t best = INT64_MAX;
  std::vector<std::uint32_t> sender(problem.tasks.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t t) {
    if (t == sender.size()) {
      best = std::min(best, makespan_of(in_order(problem, order, sender)));
      return;
    }
    for (const auto s : problem.tasks[t].senders) sender[t] = s, choose(t + 1);
  };
  do choose(0);
  while (std::next_permutation(order.begin(), order.end()));
  return best;
}

Plan plan_of(const Problem& problem, const char* planner = "best") {
  return make_plan(registry().at(planner), problem);
}

}  // namespace

TEST_CASE("in order: no task fills a gap") {
  // Tasks 0 and 1 from sender 0, task 2 from sender 1 to the receiver that waits for task 1.
  const auto problem = problem_of(2, 2, {{{0}, {0}, 5}, {{0}, {1}, 5}, {{1}, {1}, 3}});
  const auto schedule = in_order(problem, natural_order(problem), {0, 0, 1});
  CHECK(schedule[1].start == 5);
  CHECK(schedule[2].start == 10);  // it could have run during [0, 3)
  CHECK(plan_of(problem).makespan == 10);
}

TEST_CASE("bounds by hand") {
  // Three tasks of 4 that senders 0 and 1 share, receivers apart: the receivers bound 4, the senders 12 / 2 = 6, and
  // one of two senders gets two whole tasks: 8.
  auto problem = problem_of(2, 3, {{{0, 1}, {0}, 4}, {{0, 1}, {1}, 4}, {{0, 1}, {2}, 4}});
  auto b = bounds(problem);
  CHECK(b.receiver == 4);
  CHECK(b.sender == 6);
  CHECK(b.pigeonhole == 8);
  CHECK(b.task == 4);
  CHECK(b.clique == 4);
  CHECK(plan_of(problem).makespan == 8);
  // Shared between senders, 6 is reached.
  problem.split = true;
  CHECK(bounds(problem).best() == 6);
  const auto plan = plan_of(problem);
  CHECK(plan.makespan == 6);
  CHECK(plan.optimal());
  // Three tasks of which each two share a receiver, though no NIC is in all three: one after the other.
  const auto triangle = problem_of(3, 3, {{{0}, {0, 1}, 4}, {{1}, {1, 2}, 5}, {{2}, {0, 2}, 6}});
  CHECK(bounds(triangle).clique == 15);
  CHECK(bounds(triangle).receiver == 11);
  CHECK(plan_of(triangle).makespan == 15);
}

TEST_CASE("the original's search ends above the optimum: its estimate is no bound") {
  const auto problem =
      problem_of(2, 3, {{{0, 1}, {1, 2}, 2}, {{0, 1}, {1}, 4}, {{0, 1}, {0}, 6}, {{0}, {0}, 6}, {{0}, {1, 2}, 5}});
  CHECK(plan_of(problem, "dfs").makespan == 13);
  CHECK_FALSE(plan_of(problem, "dfs").optimal());
  CHECK(plan_of(problem).makespan == 12);
  CHECK(plan_of(problem).optimal());
  CHECK(exhaustive(problem) == 12);
}

TEST_CASE("best is the optimum of exhaustive search") {
  Random random(1);
  for (int i = 0; i < 150; i++) {
    CAPTURE(i);
    const auto problem =
        random_problem(random, 1 + std::uint32_t(random.below(3)), 1 + std::uint32_t(random.below(4)), 5, 9);
    const auto plan = plan_of(problem);
    CHECK(plan.makespan == exhaustive(problem));
    CHECK(plan.optimal());
  }
}

TEST_CASE("the exact search alone, with no schedule to start from and no bound to stop at") {
  Random random(6);
  for (int i = 0; i < 170; i++) {
    CAPTURE(i);
    // The last ones are of seven tasks, so that states are met again on other ways.
    const auto problem =
        i < 150 ? random_problem(random, 1 + std::uint32_t(random.below(4)), 1 + std::uint32_t(random.below(4)), 5, 4)
                : random_problem(random, 2, 4, 7, 6);
    const auto optimum = exhaustive(problem);
    const auto found = exact_search(problem, INT64_MAX, 0, 1'000'000);
    CHECK(found.finished);
    REQUIRE(found.schedule);
    check(problem, *found.schedule);
    CHECK(makespan_of(*found.schedule) == optimum);
    // Nothing shorter: the search ends empty-handed.
    const auto none = exact_search(problem, optimum, 0, 1'000'000);
    CHECK(none.finished);
    CHECK_FALSE(none.schedule);
    CHECK(lower_bound(problem) <= optimum);
  }
}

TEST_CASE("the exact search of larger problems finds nothing longer than list schedules do") {
  Random random(7);
  std::size_t above_bound = 0;
  for (int i = 0; i < 2000; i++) {
    CAPTURE(i);
    // Long tasks and a choice of two senders: bounds are loose, and many ways lead to the same set of tasks.
    std::vector<std::tuple<std::vector<std::uint32_t>, std::vector<std::uint32_t>, std::int64_t>> list;
    for (int t = 0; t < 9; t++) {
      const auto from = std::uint32_t(random.below(2)), to = std::uint32_t(random.below(5));
      list.push_back({{from, from + 1}, {to, to + 1}, std::int64_t(3 + random.below(5))});
    }
    const auto problem = problem_of(3, 6, list);
    ListSearch search(problem);
    search.attempt(100, 0, INT64_MAX);
    const auto found = exact_search(problem, INT64_MAX, 0, 2'000'000);
    CHECK(found.finished);
    REQUIRE(found.schedule);
    CHECK(makespan_of(*found.schedule) <= search.makespan());
    above_bound += makespan_of(*found.schedule) > lower_bound(problem);
  }
  CHECK(above_bound > 20);
}

TEST_CASE("no planner undercuts the bound, and best is not above the others") {
  Random random(2);
  for (int i = 0; i < 6; i++) {
    CAPTURE(i);
    auto problem = random_problem(random, 4, 5, 10 + random.below(20), 100);
    const auto best = plan_of(problem);
    for (const auto& [name, planner] : registry()) {
      CAPTURE(name);
      const auto plan = make_plan(planner, problem);  // checks the schedule
      CHECK(plan.makespan >= best.lower_bound);
      CHECK(plan.makespan >= best.makespan);
    }
    problem.split = true;
    CHECK(plan_of(problem).makespan <= best.makespan);
  }
}

TEST_CASE("one more replica, one more NIC: never worse") {
  Random random(3);
  std::size_t proven = 0, better = 0;
  for (int i = 0; i < 60; i++) {
    CAPTURE(i);
    const auto problem = random_problem(random, 3, 4, 9, 20);
    const auto before = plan_of(problem);
    // A replica: some task gets a sender that it did not have.
    auto more = problem;
    for (auto& task : more.tasks)
      if (task.senders.size() < 3) {
        task.senders = {0, 1, 2};
        task.replicas = {{0, 0}, {1, 1}, {2, 2}};
        break;
      }
    const auto with_replica = plan_of(more);
    // A NIC: a fourth one beside sender 0.
    more = problem;
    more.senders = more.devices = 4;
    for (auto& task : more.tasks)
      if (task.senders.front() == 0) task.senders.push_back(3), task.replicas.push_back({3, 3});
    const auto with_nic = plan_of(more);
    proven += before.optimal() && with_replica.optimal() && with_nic.optimal();
    better += with_replica.makespan < before.makespan || with_nic.makespan < before.makespan;
    CHECK(with_replica.makespan <= before.makespan);
    CHECK(with_nic.makespan <= before.makespan);
  }
  CHECK(proven == 60);
  CHECK(better > 0);
}

TEST_CASE("the same seed gives the same plan") {
  Random random(4);
  auto problem = random_problem(random, 4, 6, 60, 1000);
  problem.seed = 7;
  for (const auto& [name, planner] : registry()) {
    CAPTURE(name);
    const auto a = make_plan(planner, problem), b = make_plan(planner, problem);
    REQUIRE(a.schedule.size() == b.schedule.size());
    bool same = true;
    for (std::size_t i = 0; i < a.schedule.size(); i++)
      same = same && a.schedule[i].task == b.schedule[i].task && a.schedule[i].sender == b.schedule[i].sender &&
             a.schedule[i].start == b.schedule[i].start && a.schedule[i].end == b.schedule[i].end;
    CHECK(same);
  }
}

TEST_CASE("of senders that are equally good, that on the rail of the receiver") {
  // Two halves on four GPUs each, to a whole on all eight of another host: eight stripes of each half, two for each
  // sender and each receiver. A receiver on the rail of one of its senders gets that half from it.
  Side halves, whole;
  for (std::uint32_t device = 0; device < 8; device++) {
    for (auto* side : {&halves, &whole}) side->host.push_back(0), side->rail.push_back(device);
  }
  halves.tiles = {{{{0, 64}}, {0, 1, 2, 3}}, {{{64, 128}}, {4, 5, 6, 7}}};
  whole.tiles = {{{{0, 128}}, {0, 1, 2, 3, 4, 5, 6, 7}}};
  Method method;
  method.strategy = Strategy::striped, method.nic = NicSharing::gpu, method.link = {1e9, 1e10, 1e-6};
  const auto made = transfers(halves, whole, method);
  const auto numbered = number(made);
  const auto plan = make_plan(registry().at("best"), numbered.problem);
  CHECK(plan.optimal());
  CHECK(plan.makespan == 16);
  REQUIRE(made.size() == 16);
  for (const auto& sending : plan.schedule) {
    const auto receiver = made[sending.task].receiver_devices.front();
    const bool first_half = made[sending.task].box[0].low < 64;
    CAPTURE(receiver);
    CHECK(sending.sender == (first_half ? receiver % 4 : 4 + receiver % 4));
  }
}

TEST_CASE("thousands of tasks are planned, and dfs says that it will not") {
  // Sparse, as meshes make them, and dense, where hardly two tasks run at once.
  Random random(5);
  std::vector<std::tuple<std::vector<std::uint32_t>, std::vector<std::uint32_t>, std::int64_t>> list;
  for (int t = 0; t < 5000; t++) {
    const auto from = std::uint32_t(random.below(39)), to = std::uint32_t(random.below(50));
    list.push_back({{from, from + 1}, {to}, std::int64_t(1 + random.below(1000))});
  }
  const auto sparse = problem_of(40, 50, list), dense = random_problem(random, 40, 50, 1500, 1000);
  for (const auto* problem : {&sparse, &dense})
    for (const char* planner : {"naive", "load-balance", "best"}) CHECK(plan_of(*problem, planner).makespan > 0);
  const auto best = plan_of(sparse);
  CHECK(double(best.makespan) < 1.1 * double(best.lower_bound));
  CHECK(best.makespan < plan_of(sparse, "load-balance").makespan);
  CHECK_THROWS_AS(plan_of(sparse, "dfs"), UserError);
}
