#include "schedule/evaluate.hpp"

#include <doctest/doctest.h>

using namespace rehearsal;
using schedule::lower_bound;
using schedule::Placement;

namespace {

schedule::Schedule placed(Placement placement) {
  schedule::Schedule schedule;
  schedule.placement = placement;
  return schedule;
}

}  // namespace

TEST_CASE("lower bound: one micro-batch is its own critical path") {
  // Rank 0 of 3: F F F I I I W with F = 10, I = 20, W = 5, transfer 1: 30 + 2 + 60 + 2 + 5 = 99. Exact for m = 1.
  const auto problem =
      schedule::uniform_problem(3, 1, 1, picoseconds(10), picoseconds(20), picoseconds(5), picoseconds(1));
  CHECK(lower_bound(placed(Placement::loop), problem, false).count() == 99);
}

TEST_CASE("lower bound: with many micro-batches the busiest rank decides") {
  // 100 micro-batches, the slowest stage takes 10 + 20 + 8: 3,800, far above any round trip.
  auto problem = schedule::uniform_problem(3, 100, 1, picoseconds(10), picoseconds(20), picoseconds(5), picoseconds(1));
  problem.weight_gradient[1] = picoseconds(8);
  CHECK(lower_bound(placed(Placement::loop), problem, false).count() == 3800);
}

TEST_CASE("lower bound: a memory limit forces rank 0 to wait for its first gradient") {
  // p = 4, m = 8, F = I = W = 1, no transfer. Rank 0's first gradient cannot start before 4 F + 3 I = 7; with room for
  // 2 forwards, 6 of its 8 forwards and all 16 gradients come after: 7 + 6 + 16 = 29. Without the limit: 24.
  auto problem = schedule::uniform_problem(4, 8, 1, picoseconds(1), picoseconds(1), picoseconds(1), picoseconds(0));
  problem.memory_limit = 2;
  CHECK(lower_bound(placed(Placement::loop), problem, true).count() == 29);
  CHECK(lower_bound(placed(Placement::loop), problem, false).count() == 24);
}

TEST_CASE("lower bound: in a V the first gradient of rank 0 is that of the last stage") {
  // p = 2, v = 2, m = 1: stages 0 and 3 lie on rank 0. Its first gradient follows all 4 forwards at once (D = 40, the
  // gradient of stage 3 is first), then 2 (I + W) = 50 of its own: 90. Rank 1 (stages 1, 2): D = 30 + I(3) = 50, + 50.
  const auto problem =
      schedule::uniform_problem(2, 1, 2, picoseconds(10), picoseconds(20), picoseconds(5), picoseconds(0));
  CHECK(lower_bound(placed(Placement::vee), problem, false).count() == 100);
}

TEST_CASE("lower bound: two directions wait for the shorter of their ways, and carry half the micro-batches each") {
  // p = 2, m = 4, F = 10, I = 20, W = 5, no transfer; each rank holds one stage of both directions. The last stage of a
  // direction gets its first gradient after its own forward (D = 10). All work of a rank: 4 (10 + 25) = 140.
  const auto problem =
      schedule::uniform_problem(2, 4, 2, picoseconds(10), picoseconds(20), picoseconds(5), picoseconds(0));
  CHECK(lower_bound(placed(Placement::bidirectional), problem, false).count() == 140);
}

TEST_CASE("lower bound: an overlapped pair saves what it is shorter than both of its actions") {
  // One rank, 10 micro-batches of 10 + 25; each forward may save 10 + 25 - 30 = 5 with some backward: 350 - 50.
  auto problem = schedule::uniform_problem(1, 10, 1, picoseconds(10), picoseconds(20), picoseconds(5), picoseconds(0));
  problem.overlapped = {picoseconds(30)};
  CHECK(lower_bound(placed(Placement::loop), problem, false).count() == 300);
}

TEST_CASE("lower bound: half a micro-batch reaches the end in half the time") {
  // p = 3, m = 1 in 2 pieces, F = 10, I = 20, W = 0: rank 0 waits for 3 F + 2 I of one piece, (30 + 40) / 2 = 35, which
  // is more than its own forward of 10; then all its gradients: 35 + 20.
  auto schedule = placed(Placement::loop);
  schedule.cuts_sequences = true;
  auto problem = schedule::uniform_problem(3, 1, 1, picoseconds(10), picoseconds(20), picoseconds(0), picoseconds(0));
  problem.pieces = 2;
  CHECK(lower_bound(schedule, problem, false).count() == 55);
}
