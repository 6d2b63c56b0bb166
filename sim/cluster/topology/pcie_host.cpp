// Servers without NVLink: GPUs on PCIe, behind shared switches or each on the root complex of its socket; sockets
// joined by one link. The rate of a GPU's PCIe link is the spec's `nvlink`: the link inside a node. A switch has one
// such link upwards, which its GPUs share.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cluster/machine.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

std::int64_t count(const Machine& m, const char* what) { return static_cast<std::int64_t>(m.parameter(what)); }
std::int64_t sockets(const Machine& m) { return std::min(count(m, "sockets"), m.spec().gpus_per_node); }

Device socket(const Machine& m, std::int64_t gpu) {
  const auto per = (m.spec().gpus_per_node + sockets(m) - 1) / sockets(m);
  return {DeviceKind::socket, m.gpu(gpu).place, static_cast<std::uint32_t>(m.local(gpu) / per)};
}

Device pcie_switch(const Machine& m, std::int64_t gpu) {
  const auto per = m.spec().gpus_per_node / count(m, "switches");
  return {DeviceKind::pcie_switch, m.gpu(gpu).place, static_cast<std::uint32_t>(m.local(gpu) / per)};
}

void check(const Machine& m) {
  const auto switches = count(m, "switches"), g = m.spec().gpus_per_node;
  if (switches > 0 && (g % switches != 0 || switches % sockets(m) != 0))
    throw UserError(
        fmt::format("topology 'pcie-host': {} switches do not divide the {} GPUs of a node evenly over {} "
                    "sockets",
                    switches, g, sockets(m)));
}

// From a GPU to the root of its socket.
Path up(const Machine& m, std::int64_t gpu) {
  Path path{m.gpu(gpu)};
  if (count(m, "switches") > 0) path.push_back(pcie_switch(m, gpu));
  path.push_back(socket(m, gpu));
  return path;
}

Path path(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t) {
  if (count(m, "switches") > 0 && pcie_switch(m, a) == pcie_switch(m, b))
    return {m.gpu(a), pcie_switch(m, a), m.gpu(b)};
  Path way = up(m, a), back = up(m, b);
  if (way.back() == back.back()) back.pop_back();
  way.insert(way.end(), back.rbegin(), back.rend());
  return way;
}

Link link(const Machine& m, const Device& a, const Device& b) {
  const Time half(m.spec().nvlink_latency.count() / 2);
  if (a.kind == DeviceKind::socket && b.kind == DeviceKind::socket)
    return {Bandwidth(m.parameter("socket_bandwidth")), half};
  // A switch adds nothing of its own to the way to the host.
  return {m.spec().nvlink, a.kind == DeviceKind::gpu || b.kind == DeviceKind::gpu ? half : Time()};
}

ClosedFormBounds promise(const Machine& m) {
  const auto g = m.spec().gpus_per_node, s = count(m, "switches");
  if (g == 1) return {Bandwidth(), 0};
  const auto flow = m.spec().nvlink * double(s > 1 ? s / 2 : g / 2);
  const bool two = sockets(m) > 1;
  return {two ? std::min(flow, Bandwidth(m.parameter("socket_bandwidth"))) : flow, 2 + (two ? 1 : 0) + (s > 1 ? 2 : 0)};
}

}  // namespace

void register_pcie_host(Registry& registry) {
  Topology t;
  t.name = "pcie-host";
  t.summary = "Inside a node without NVLink: GPUs on PCIe, behind shared switches or not, on one socket or two.";
  t.role = Topology::Role::node;
  t.parameters = {
      {"sockets", Unit::integer, 1, 1, 2, "processors; GPUs are dealt out to them"},
      {"switches", Unit::integer, 0, 0, 64, "PCIe switches of a node, whose GPUs share one link upwards; 0 = none"},
      // Three UPI links of 10.4 GT/s (Intel Ice Lake) carry 20.8 GB/s each, one way.
      {"socket_bandwidth", Unit::rate, 62.4e9, 1e6, 1e15, "between two sockets, one way"}};
  t.check = check;
  t.path = path;
  t.link = link;
  t.exit = up;
  t.promise = promise;
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
