#include "collective/registry.hpp"

namespace rehearsal::collective {

void register_send_recv(Registry& registry) {
  Algorithm pair;
  pair.name = "send-recv";
  pair.summary = "One message from one rank to another: one step, the whole array (alpha-beta).";
  pair.point_to_point = true;
  pair.steps = [](std::uint32_t n) { return n > 1 ? 1U : 0U; };
  pair.bytes_sent_per_rank = [](std::uint32_t n, Bytes size) { return n > 1 ? size : Bytes(); };
  pair.time = [](std::uint32_t n, Bytes size, double fixed, double latency, Bandwidth rate) {
    return n > 1 ? fixed + latency + seconds_for(size, rate) : 0.;
  };
  pair.schedule = [](std::uint32_t n) {
    std::vector<std::vector<Transfer>> steps;
    if (n > 1) steps.push_back({{0, 1, 0, false}});
    return steps;
  };
  registry.add(std::move(pair));
}

}  // namespace rehearsal::collective
