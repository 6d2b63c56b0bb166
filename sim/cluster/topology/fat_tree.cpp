// A folded Clos network (Al-Fares et al. 2008): all NICs of a node on one leaf, leaves on spines, and with three levels
// pods of leaves and spines on cores. Switches have `radix` ports at the rate of a NIC.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

double over_leaf(const Machine& m) { return m.parameter("oversubscription"); }

// Of an o : 1 leaf, o/(1 + o) of the ports lead down.
std::int64_t gpus_below_leaf(const Machine& m) {
  const double down = m.parameter("radix") * over_leaf(m) / (1 + over_leaf(m));
  const auto nodes = static_cast<std::int64_t>(down / double(m.spec().nics_per_node) + 1e-9);
  return whole_domains(m, std::max<std::int64_t>(1, nodes) * m.spec().gpus_per_node);
}

bool three(const Machine& m) { return m.parameter("levels") > 2; }

// A spine of two levels meets `radix` leaves; one of three half as many, the other ports lead to cores.
std::int64_t below_spine(const Machine& m) {
  const auto leaves = static_cast<std::int64_t>(m.parameter("radix")) / (three(m) ? 2 : 1);
  return gpus_below_leaf(m) * std::max<std::int64_t>(1, leaves);
}

// Ports of a leaf up: equal ways, each at the rate of a NIC.
std::int64_t uplinks(const Machine& m) {
  const auto nics = gpus_below_leaf(m) / m.spec().gpus_per_node * m.spec().nics_per_node;
  return std::max<std::int64_t>(1, std::llround(double(nics) / over_leaf(m)));
}

// The same of a spine.
std::int64_t core_ways(const Machine& m) {
  return std::llround(m.parameter("radix") / 2 / m.parameter("core_oversubscription"));
}

void check(const Machine& m) {
  if (m.parameter("levels") != 2 && m.parameter("levels") != 3)
    throw UserError(fmt::format("topology 'fat-tree' has 'levels' 2 or 3, found {}", m.parameter("levels")));
  if (m.spec().nics_per_node > static_cast<std::int64_t>(m.parameter("radix")))
    throw UserError(fmt::format("topology 'fat-tree': a leaf of 'radix' {} cannot take the {} NICs of a node",
                                m.parameter("radix"), m.spec().nics_per_node));
  const auto most = below_spine(m) * (three(m) ? static_cast<std::int64_t>(m.parameter("radix")) : 1);
  if (m.gpus() > most)
    throw UserError(fmt::format(
        "topology 'fat-tree': {} levels of switches with 'radix' {} join at most {} GPUs, and the cluster has {}; use "
        "{} or a larger radix",
        m.parameter("levels"), m.parameter("radix"), most, m.gpus(), three(m) ? "fewer nodes" : "levels: 3"));
}

Path path(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe) {
  const auto leaf = [&](std::int64_t gpu) {
    return Device{DeviceKind::leaf, static_cast<std::uint32_t>(gpu / gpus_below_leaf(m)), 0};
  };
  // All spines of a pod as one, as if packets were spread evenly; or the one that the switch hashes the flow to.
  const auto hashed = [&](std::uint64_t seed, std::int64_t ways) {
    if (seed == 0) return std::uint32_t{0};
    std::uint64_t flow = seed;
    for (const auto part : {a, b, stripe}) flow = Random(flow ^ static_cast<std::uint64_t>(part)).next();
    return Random(flow).below32(static_cast<std::uint32_t>(ways));
  };
  const auto seed = static_cast<std::uint64_t>(m.parameter("ecmp"));
  const auto way = hashed(seed, uplinks(m));
  const auto spine = [&](std::int64_t gpu) {
    return Device{DeviceKind::spine, static_cast<std::uint32_t>(gpu / below_spine(m)), way};
  };
  if (leaf(a) == leaf(b)) return over(m, a, b, stripe, {leaf(a)});
  if (spine(a) == spine(b)) return over(m, a, b, stripe, {leaf(a), spine(a), leaf(b)});
  const Device core{DeviceKind::core, 0, hashed(seed + (seed > 0), std::max<std::int64_t>(1, core_ways(m)))};
  return over(m, a, b, stripe, {leaf(a), spine(a), core, spine(b), leaf(b)});
}

std::vector<Level> levels(const Machine& m) {
  auto all = leaf_and_spine(m, gpus_below_leaf(m), over_leaf(m));
  if (below_spine(m) >= m.gpus()) return all;
  all.back().width = below_spine(m);
  all.push_back({"spine to core", m.gpus(),
                 m.out_of_domain() * (double(below_spine(m)) / double(m.domain()) / over_leaf(m) /
                                      m.parameter("core_oversubscription")),
                 m.spec().nic_latency + kSwitchLatency * 4});
  return all;
}

}  // namespace

void register_fat_tree(Registry& registry) {
  Topology t;
  t.name = "fat-tree";
  t.summary = "Joins nodes: a folded Clos of two or three levels, all NICs of a node on one leaf.";
  t.parameters = {{"levels", Unit::integer, 2, 2, 3, "of switches"},
                  {"radix", Unit::integer, 64, 2, 4096, "ports of a switch, at the rate of a NIC"},
                  {"oversubscription", Unit::number, 1, 1, 1000, "ports of a leaf down over ports up"},
                  {"core_oversubscription", Unit::number, 1, 1, 1000, "the same of spines, with three levels"},
                  {"ecmp", Unit::integer, 0, 0, 1e9,
                   "seed by which each flow is hashed to one of the equal ways up; 0: flows are spread over all"}};
  t.check = check;
  t.path = path;
  t.link = [](const Machine& m, const Device& a, const Device& b) {
    const auto at = levels(m);
    const bool to_core = a.kind == DeviceKind::core || b.kind == DeviceKind::core;
    const auto all = at[to_core ? 2 : 1].out;
    if (m.parameter("ecmp") == 0) return Link{all, kSwitchLatency};
    return Link{to_core ? m.spec().nic : all / double(uplinks(m)), kSwitchLatency};
  };
  t.levels = levels;
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
