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
  ring.steps = [](std::uint32_t n) { return n - 1; };
  ring.bytes_sent_per_rank = [](std::uint32_t n, Bytes size) { return ring_bytes(n, size, 1); };
  ring.time = [](std::uint32_t n, Bytes size, double fixed, double latency, Bandwidth rate) {
    return ring_time(n, size, 1, fixed, latency, rate);
  };
  ring.schedule = [](std::uint32_t n) { return ring_all_gather_steps(n); };
  registry.add(std::move(ring));
}

}  // namespace rehearsal::collective
