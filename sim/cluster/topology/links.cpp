// Links that a user wrote out: `links: [[gpu0, gpu1, 25GB/s, 1us], [gpu0, switch, ...], ...]`.
#include "cluster/machine.hpp"
#include "cluster/registry.hpp"
#include "cluster/written_graph.hpp"

namespace rehearsal::cluster {

void register_links(Registry& registry) {
  Topology t;
  t.name = "links";
  t.summary = "Links written out one by one; routes of least latency (Dijkstra), rings in the order of ranks.";
  t.role = Topology::Role::whole;
  t.path = [](const Machine& m, std::int64_t a, std::int64_t b, std::int64_t) {
    return m.written().route(m.gpu(a), m.gpu(b));
  };
  t.link = [](const Machine& m, const Device& a, const Device& b) { return m.written().link(a, b); };
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
