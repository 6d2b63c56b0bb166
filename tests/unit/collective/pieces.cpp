// Pieces of collectives across nodes, counted by hand.
#include "collective/pieces.hpp"

#include <doctest/doctest.h>

using namespace rehearsal;
using namespace rehearsal::collective;
using doctest::Approx;

TEST_CASE("two stages: the first piece passes both, then the slower sets the pace") {
  CHECK(pipelined(3, 5, 1) == 8);
  // Four pieces of 3/4 and 5/4: 3/4 until the first reaches the wire, which then is busy to the end.
  CHECK(pipelined(3, 5, 4) == Approx(.75 + 5));
  CHECK(pipelined(5, 3, 4) == Approx(5 + .75));
  CHECK(pipelined(0, 5, 4) == 5);
}

TEST_CASE("rings send chunks of 2 MiB in two slices, n - 1 steps a phase") {
  const Bytes loop(16LL * 4 * (2 << 20));  // 16 channels, a chunk for each of 4 ranks
  CHECK(ring_pieces({4, 2}, loop, 1, 16) == 3 * 2);
  CHECK(ring_pieces({4, 2}, loop, 2, 16) == 2 * 3 * 2);
  CHECK(ring_pieces({4, 2}, Bytes(2 * loop.count()), 1, 16) == 2 * 3 * 2);
  CHECK(ring_pieces({4, 2}, Bytes(loop.count() + 1), 1, 16) == Approx(3 * 2).epsilon(1e-7));  // a byte is no loop
  // Less than a loop: smaller chunks, as many.
  CHECK(ring_pieces({4, 2}, Bytes(1000), 1, 16) == 3 * 2);
}

TEST_CASE("trees send chunks of a step, smaller ones where they would be few") {
  // Two nodes of 8: 1 + log2 2 + .8 = 2.8. At least 2.8 x 64/8 = 22.4 pieces or 128 KiB, then 5.6 or 32 KiB.
  CHECK(tree_pieces({16, 8}, Bytes(16LL << 30), 16) == 2048);               // 1 GiB a channel in 512 KiB
  CHECK(tree_pieces({16, 8}, Bytes(16LL * 8 << 20), 16) == Approx(22.4));   // 8 MiB: 16 of 512 KiB would be few
  CHECK(tree_pieces({16, 8}, Bytes(16LL << 20), 16) == 8);                  // 1 MiB: 128 KiB
  CHECK(tree_pieces({16, 8}, Bytes(16LL * 256 << 10), 16) == Approx(5.6));  // 256 KiB: 47 KiB
  CHECK(tree_pieces({16, 8}, Bytes(16LL * 64 << 10), 16) == 2);             // 64 KiB: 32 KiB
  CHECK(tree_pieces({16, 8}, Bytes(1000), 16) == 1);
}
