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
  ring.steps = [](std::uint32_t n) { return 2 * (n - 1); };
  ring.bytes_sent_per_rank = [](std::uint32_t n, Bytes size) { return ring_bytes(n, size, 2); };
  ring.time = [](std::uint32_t n, Bytes size, double fixed, double latency, Bandwidth rate) {
    return ring_time(n, size, 2, fixed, latency, rate);
  };
  ring.schedule = [](std::uint32_t n) {
    auto steps = ring_reduce_scatter_steps(n);
    for (auto& step : ring_all_gather_steps(n)) steps.push_back(std::move(step));
    return steps;
  };
  registry.add(std::move(ring));
}

}  // namespace rehearsal::collective
