// Groups of nodes that do not block inside, every group joined to every other (Kim et al. 2008). Adaptive routing
// spreads what leaves a group over all of them, so that with more than two groups a byte crosses two global links
// (Valiant 1982): half of what a group's links carry is its own.
#include <algorithm>

#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

std::int64_t group(const Machine& m) {
  return whole_domains(m, static_cast<std::int64_t>(m.parameter("nodes_per_group")) * m.spec().gpus_per_node);
}
double groups(const Machine& m) { return std::ceil(double(m.gpus()) / double(group(m))); }

Bandwidth global(const Machine& m) {  // out of a group, all links
  return m.out_of_domain() * (double(group(m)) / double(m.domain()) / m.parameter("oversubscription"));
}

Path path(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe) {
  const auto router = [&](std::int64_t gpu) {
    return Device{DeviceKind::router, 0, static_cast<std::uint32_t>(gpu / group(m))};
  };
  if (router(a) == router(b)) return over(m, a, b, stripe, {router(a)});
  return over(m, a, b, stripe, {router(a), router(b)});
}

std::vector<Level> levels(const Machine& m) {
  std::vector<Level> all{{"NIC", group(m), m.out_of_domain(), m.spec().nic_latency}};
  if (groups(m) > 1)
    all.push_back({"group to group", m.gpus(), global(m) / (groups(m) > 2 ? 2. : 1.),
                   m.spec().nic_latency + kSwitchLatency * (groups(m) > 2 ? 2 : 1)});
  return all;
}

}  // namespace

void register_dragonfly(Registry& registry) {
  Topology t;
  t.name = "dragonfly";
  t.summary = "Joins nodes: groups that do not block inside, each joined to every other; adaptive routing.";
  t.parameters = {
      {"nodes_per_group", Unit::integer, 32, 1, 1e6, "nodes of a group"},
      {"oversubscription", Unit::number, 1, 1, 1000, "what the NICs of a group carry over its global links"}};
  t.path = path;
  t.link = [](const Machine& m, const Device&, const Device&) {
    return Link{global(m) / std::max(1., groups(m) - 1), kSwitchLatency};
  };
  t.levels = levels;
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
