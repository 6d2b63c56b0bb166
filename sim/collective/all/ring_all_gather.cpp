#include "collective/pieces.hpp"
#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {

void register_ring_all_gather(Registry& registry) {
  Algorithm ring;
  ring.name = "ring-all-gather";
  ring.summary =
      "Each rank starts with one n-th of the array and ends with all of it: n-1 steps around a ring, least possible "
      "bytes.";
  ring.kind = CollectiveKind::all_gather;
  ring.steps = [](Shape s) { return s.ranks - 1; };
  ring.bytes_sent_per_rank = [](Shape s, Bytes size) { return ring_bytes(s.ranks, size, 1); };
  ring.time = [](Shape s, Bytes size, const Wires& w) { return ring_time(s, size, 1, w); };
  ring.schedule = [](Shape s) { return ring_all_gather_steps(s.ranks); };
  ring.pieces = pieces_of_ring_part;
  ring.why = ring_hops;
  registry.add(std::move(ring));
}

}  // namespace rehearsal::collective
