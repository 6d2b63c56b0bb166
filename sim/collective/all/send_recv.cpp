#include "collective/registry.hpp"

namespace rehearsal::collective {

void register_send_recv(Registry& registry) {
  Algorithm pair;
  pair.name = "send-recv";
  pair.summary = "One message from one rank to another: one step, the whole array (alpha-beta).";
  pair.point_to_point = true;
  pair.parts = 1;
  pair.steps = [](Shape s) { return s.ranks > 1 ? 1U : 0U; };
  pair.bytes_sent_per_rank = [](Shape s, Bytes size) { return s.ranks > 1 ? size : Bytes(); };
  pair.time = [](Shape s, Bytes size, const Wires& w) {
    return s.ranks > 1 ? w.fixed + w.latency + seconds_for(size, w.rate) : 0.;
  };
  pair.schedule = [](Shape s) {
    std::vector<std::vector<Transfer>> steps;
    if (s.ranks > 1) steps.push_back({{0, 1, 0, false}});
    return steps;
  };
  registry.add(std::move(pair));
}

}  // namespace rehearsal::collective
