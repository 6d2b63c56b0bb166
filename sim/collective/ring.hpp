// The two phases of a ring, shared by its three collectives. n ranks, n chunks; in every step each rank sends one chunk
// to its right neighbour, so all links are busy all the time (Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collective/collective.hpp"

namespace rehearsal::collective {

// n-1 steps; afterwards rank r holds the sum of chunk r.
std::vector<std::vector<Transfer>> ring_reduce_scatter_steps(std::uint32_t n);

// n-1 steps from "rank r holds chunk r" to "everyone holds everything".
std::vector<std::vector<Transfer>> ring_all_gather_steps(std::uint32_t n);

// Bytes that a rank sends in `phases` phases of n-1 steps: phases (n-1)/n S.
Bytes ring_bytes(std::uint32_t n, Bytes size, int phases);

// In one node: fixed + phases ((n-1) latency + (n-1)/n S / rate); 0 for one rank. Across k nodes every step waits for
// the slowest hop, but only k-1 of a phase's steps are between nodes: the bytes of the ring leave each node once, while
// those inside travel over its links.
double ring_time(Shape shape, Bytes size, int phases, const Wires& wires);

std::string ring_hops(Shape shape);  // "3 hops"

}  // namespace rehearsal::collective
