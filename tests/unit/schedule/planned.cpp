// Searched schedules: the search runs once, and what it proved is stored with the order.
#include <doctest/doctest.h>

#include "listed.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;

namespace {

// Two ranks, two micro-batches, no transfers: F = B = 10. The list is 1F1B.
Schedule searching(int& runs) {
  Schedule schedule;
  schedule.name = "searching";
  schedule.plan = [&runs](const Problem&) {
    ++runs;
    return Planned{{parse_list("0F0,0F1,0B0,0B1"), parse_list("1F0,1B0,1F1,1B1")}, true, Time(60)};
  };
  return schedule;
}

Problem small() { return uniform_problem(2, 2, 1, Time(10), Time(10), Time(0), Time(0)); }

}  // namespace

TEST_CASE("a search runs once for all questions about its order") {
  int runs = 0;
  const Problem problem = small();
  const Schedule ready = planned(searching(runs), problem);
  CHECK(runs == 1);
  CHECK_FALSE(ready.plan);
  // Rank 0: F0 F1 in 0..20, then B0 at 30 (after F0 and B0 of rank 1) and B1 at 50: cost 60.
  CHECK(replay(ready, problem).cost == Time(60));
  CHECK(replay(planned(ready, problem), problem).makespan == Time(60));
  CHECK(order_text(ready, problem) == std::vector<std::string>{"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"});
  CHECK_NOTHROW(check_zero_buffer(ready, problem));
  CHECK(runs == 1);
  CHECK(ready.optimal == true);
  CHECK(ready.lower_bound == Time(60));
}

TEST_CASE("an order outlives the schedule that planned it") {
  int runs = 0;
  const Problem problem = small();
  Order order = planned(searching(runs), problem).order(problem, 1);
  REQUIRE(order.next());
  CHECK(order.value() == Action{0, 1, Op::forward});
}

TEST_CASE("an unplanned schedule is planned when needed; a rule stays as it is") {
  int runs = 0;
  const Problem problem = small();
  CHECK(replay(searching(runs), problem).cost == Time(60));
  CHECK(order_sha256(searching(runs), problem) == order_sha256(registry().at("1f1b"), problem));
  CHECK(runs == 2);
  CHECK_FALSE(planned(registry().at("1f1b"), problem).optimal);
}

TEST_CASE("a problem is checked before it is searched") {
  int runs = 0;
  Problem problem = small();
  problem.transfer.clear();
  check_contains(user_error([&] { planned(searching(runs), problem); }), "transfer has 0 values, but needs 1");
  CHECK(runs == 0);
}
