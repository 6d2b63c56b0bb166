// A node whose GPUs are joined pair by pair, each pair by the same share of a GPU's NVLinks: four V100 with two links
// to each of the others (the V100 nodes of Jean Zay).
#include "cluster/machine.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {

void register_full_mesh(Registry& registry) {
  Topology t;
  t.name = "full-mesh";
  t.summary = "Inside a node: every pair of GPUs joined by an equal share of their NVLinks, no switch (4 x V100).";
  t.role = Topology::Role::node;
  t.uniform = true;
  t.path = [](const Machine& m, std::int64_t a, std::int64_t b, std::int64_t) { return Path{m.gpu(a), m.gpu(b)}; };
  t.link = [](const Machine& m, const Device&, const Device&) {
    return Link{m.spec().nvlink / double(m.spec().gpus_per_node - 1), m.spec().nvlink_latency};
  };
  // NCCL's rings run over all links among the members.
  t.port = [](const Machine& m, std::int64_t, std::int64_t members) {
    return m.spec().nvlink * (double(members - 1) / double(m.spec().gpus_per_node - 1));
  };
  t.promise = [](const Machine& m) {
    const auto g = m.spec().gpus_per_node;
    if (g == 1) return ClosedFormBounds{Bandwidth(), 0};
    return ClosedFormBounds{m.spec().nvlink * (double(g / 2 * (g - g / 2)) / double(g - 1)), 1};
  };
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
