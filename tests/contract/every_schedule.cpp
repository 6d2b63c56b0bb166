// Every schedule of the house keeps the contract of schedules.
#include "schedule_contract.hpp"

using namespace rehearsal::schedule;

TEST_CASE("the shelf is not empty and every schedule says what it is") {
  CHECK(registry().names().size() >= 5);
  contract::says_what_it_is(registry());
}

TEST_CASE("a small grid: every cell once, replay and rendezvous complete, formulas hold") {
  contract::small_grid(registry());
}

TEST_CASE("random problems, stages alike: closed forms hold wherever they are given") {
  contract::random_alike(registry());
}

TEST_CASE("random problems, every stage different, all knobs") { contract::random_different(registry()); }
