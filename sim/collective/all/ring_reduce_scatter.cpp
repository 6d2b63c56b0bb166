#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {

void register_ring_reduce_scatter(Registry& registry) {
  Algorithm ring;
  ring.name = "ring-reduce-scatter";
  ring.summary = "Each rank ends with the sum of one n-th of the array: n-1 steps around a ring, least possible bytes.";
  ring.kind = CollectiveKind::reduce_scatter;
  ring.steps = [](std::uint32_t n) { return n - 1; };
  ring.bytes_sent_per_rank = [](std::uint32_t n, Bytes size) { return ring_bytes(n, size, 1); };
  ring.time = [](std::uint32_t n, Bytes size, double fixed, double latency, Bandwidth rate) {
    return ring_time(n, size, 1, fixed, latency, rate);
  };
  ring.schedule = [](std::uint32_t n) { return ring_reduce_scatter_steps(n); };
  registry.add(std::move(ring));
}

}  // namespace rehearsal::collective
