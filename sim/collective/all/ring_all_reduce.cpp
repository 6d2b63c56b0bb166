#include "collective/pieces.hpp"
#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {

void register_ring_all_reduce(Registry& registry) {
  Algorithm ring;
  ring.name = "ring-all-reduce";
  ring.summary =
      "Reduce-scatter, then all-gather around one ring: 2(n-1) steps, least possible bytes (Patarasuk & Yuan 2009; "
      "NCCL's ring).";
  ring.kind = CollectiveKind::all_reduce;
  ring.steps = [](Shape s) { return 2 * (s.ranks - 1); };
  ring.bytes_sent_per_rank = [](Shape s, Bytes size) { return ring_bytes(s.ranks, size, 2); };
  ring.time = [](Shape s, Bytes size, const Wires& w) { return ring_time(s, size, 2, w); };
  ring.schedule = [](Shape s) {
    auto steps = ring_reduce_scatter_steps(s.ranks);
    for (auto& step : ring_all_gather_steps(s.ranks)) steps.push_back(std::move(step));
    return steps;
  };
  ring.pieces = pieces_of_ring_part;
  ring.why = ring_hops;
  registry.add(std::move(ring));
}

}  // namespace rehearsal::collective
