// Shared by several topologies.
#pragma once
#include <algorithm>
#include <vector>

#include "base/units.hpp"
#include "cluster/machine.hpp"

namespace rehearsal::cluster {

// Latency of one switch beyond the first: 500 ns of an InfiniBand fabric (vendor data sheets: 130-500 ns); assumed.
constexpr Time kSwitchLatency = picoseconds(500'000);

// GPUs of a domain behind one switch that does not block.
inline void through_nvswitch(Topology& t) {
  t.role = Topology::Role::node;
  t.uniform = t.reduces = true;
  t.path = [](const Machine& m, std::int64_t a, std::int64_t b, std::int64_t) {
    return Path{m.gpu(a), {DeviceKind::nvswitch, static_cast<std::uint32_t>(a / m.domain()), 0}, m.gpu(b)};
  };
  t.link = [](const Machine& m, const Device&, const Device&) {  // GPU to GPU is two links and costs nvlink_latency
    return Link{m.spec().nvlink, Time(m.spec().nvlink_latency.count() / 2)};
  };
  t.port = [](const Machine& m, std::int64_t, std::int64_t) { return m.spec().nvlink; };
  t.promise = [](const Machine& m) {
    return ClosedFormBounds{m.spec().nvlink * double(m.domain() / 2), m.domain() > 1 ? 2 : 0};
  };
}

// From a GPU over its NIC, the switches between, and the other's NIC to the other.
inline Path over(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe, const Path& switches) {
  Path path = m.exit(a, stripe);
  path.insert(path.end(), switches.begin(), switches.end());
  const Path back = m.exit(b, stripe);
  path.insert(path.end(), back.rbegin(), back.rend());
  return path;
}

// GPUs below one switch: whole domains, at least one, at most the machine; 0 = all.
inline std::int64_t whole_domains(const Machine& m, std::int64_t gpus) {
  if (gpus <= 0 || gpus >= m.gpus()) return m.gpus();
  return std::max(m.domain(), gpus / m.domain() * m.domain());
}

// Domains on leaves of `below` GPUs, whose uplinks carry 1/`oversubscription` of the incoming rate.
inline std::vector<Level> leaf_and_spine(const Machine& m, std::int64_t below, double oversubscription) {
  std::vector<Level> levels{{"NIC", below, m.out_of_domain(), m.spec().nic_latency}};
  if (below < m.gpus())
    levels.push_back({"leaf to spine", m.gpus(),
                      m.out_of_domain() * (double(below) / double(m.domain()) / oversubscription),
                      m.spec().nic_latency + kSwitchLatency * 2});
  return levels;
}

// The rate at which half of the domains send to the others if nothing above the NICs blocks.
inline Bandwidth half_of_domains(const Machine& m) {
  const auto half = m.domains() / 2 * m.domain(), rest = m.gpus() - half;  // the last domain may not be full
  return m.spec().node_rate() * (double(std::min(half, rest)) / double(m.spec().gpus_per_node));
}
inline std::int64_t hops_over(const Machine& m, std::int64_t switches) {
  return 2 * (std::ssize(m.exit(0, 0)) - 1) + switches + 1;
}

}  // namespace rehearsal::cluster
