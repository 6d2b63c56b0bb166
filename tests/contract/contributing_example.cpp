// The worked example of CONTRIBUTING.md, compiled from the page itself (contributing_example.cmake), keeps the contract
// of schedules like any schedule of the house.
#include "schedule_contract.hpp"

namespace rehearsal::schedule {
void register_contributing_example(Registry& registry);  // the name that the page gives it is a macro here
}

using namespace rehearsal::schedule;

namespace {

const Registry& example() {
  static const Registry shelf = [] {
    Registry filled("schedule");
    register_contributing_example(filled);
    return filled;
  }();
  return shelf;
}

}  // namespace

TEST_CASE("the page holds one schedule, with a closed form to be checked") {
  REQUIRE(example().names().size() == 1);
  CHECK(example().begin()->second.closed_form);
  contract::says_what_it_is(example());
}

TEST_CASE("a small grid: every cell once, replay and rendezvous complete, formulas hold") {
  contract::small_grid(example());
}

TEST_CASE("random problems, stages alike: closed forms hold wherever they are given") {
  contract::random_alike(example());
}

TEST_CASE("random problems, every stage different, all knobs") { contract::random_different(example()); }
