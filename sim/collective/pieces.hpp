// NCCL cuts what it moves into pieces: while one crosses a wire between nodes, others move inside them.
//
// Sizes are facts of NCCL 2.30: a channel has a buffer of 4 MiB (src/init.cc) with 8 steps (src/include/device.h). A
// ring sends chunks of 4 steps in slices of 2 (src/include/collectives.h), a tree chunks of a step, and of fewer bytes
// where pieces would be few (calcCollChunking, src/enqueue.cc).
#pragma once
#include "collective/collective.hpp"

namespace rehearsal::collective {

// Pieces of a message of our own steps where NCCL's way is one call: small enough that members stay together.
double own_pieces(double bytes);

// Pieces that follow each other over one edge of a channel; at least one, and not an integer: one more byte adds no
// loop, since NCCL distributes the remainder. `phases`: 2 for an all-reduce, 1 for its halves.
double pieces_of_ring_part(Shape shape, Bytes size, double channels);  // of those, in one step
double ring_pieces(Shape shape, Bytes size, int phases, double channels);
double tree_pieces(Shape shape, Bytes size, double channels);

// Two stages in sequence, `inside` and `wire` seconds for all m pieces: the first piece passes both, then the slower
// one sets the pace. (x1 + x2)/m + (m-1)/m max(x1, x2). The reduction inside a node before the wire and the all-gather
// after it use the same ports: they are one stage.
double pipelined(double inside, double wire, double pieces);

}  // namespace rehearsal::collective
