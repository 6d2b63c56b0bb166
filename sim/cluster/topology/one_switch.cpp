// All NICs of all nodes on one logical switch that does not block.
#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {

void register_one_switch(Registry& registry) {
  Topology t;
  t.name = "one-switch";
  t.summary = "Joins nodes: all NICs on one logical switch that does not block.";
  t.path = [](const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe) {
    return over(m, a, b, stripe, {{DeviceKind::leaf, 0, 0}});
  };
  t.levels = [](const Machine& m) { return leaf_and_spine(m, m.gpus(), 1); };
  t.promise = [](const Machine& m) { return ClosedFormBounds{half_of_domains(m), hops_over(m, 1)}; };
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
