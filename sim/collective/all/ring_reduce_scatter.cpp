#include "collective/pieces.hpp"
#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {

void register_ring_reduce_scatter(Registry& registry) {
  Algorithm ring;
  ring.name = "ring-reduce-scatter";
  ring.summary = "Each rank ends with the sum of one n-th of the array: n-1 steps around a ring, least possible bytes.";
  ring.kind = CollectiveKind::reduce_scatter;
  ring.steps = [](Shape s) { return s.ranks - 1; };
  ring.bytes_sent_per_rank = [](Shape s, Bytes size) { return ring_bytes(s.ranks, size, 1); };
  ring.time = [](Shape s, Bytes size, const Wires& w) { return ring_time(s, size, 1, w); };
  ring.schedule = [](Shape s) { return ring_reduce_scatter_steps(s.ranks); };
  ring.pieces = pieces_of_ring_part;
  ring.why = ring_hops;
  registry.add(std::move(ring));
}

}  // namespace rehearsal::collective
