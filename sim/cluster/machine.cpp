#include "cluster/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "cluster/device_kind.hpp"
#include "cluster/registry.hpp"
#include "cluster/written_graph.hpp"

namespace rehearsal::cluster {
namespace {

const Parameter* declared(const Topology& topology, std::string_view name) {
  const auto found = std::find_if(topology.parameters.begin(), topology.parameters.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  return found == topology.parameters.end() ? nullptr : &*found;
}

}  // namespace

Machine::Machine(ClusterSpec spec) : spec_(std::move(spec)), known_(std::make_shared<Known>()) {
  if (spec_.gpus_per_node < 1 || spec_.nodes < 1)
    throw UserError(fmt::format("cluster '{}' needs at least one node and one GPU per node", spec_.name));
  const Topology& named = registry().at(spec_.topology.name.empty() ? "nvswitch" : spec_.topology.name);
  if (named.role == Topology::Role::fabric) {
    inside_ = &registry().at(spec_.node_topology.name.empty() ? "nvswitch" : spec_.node_topology.name);
    fabric_ = &named;
    if (inside_->role == Topology::Role::fabric)
      throw UserError(fmt::format("topology '{}' joins nodes and cannot be what is inside of one", inside_->name));
  } else {
    inside_ = &named;
    fabric_ = inside_->role == Topology::Role::whole ? inside_ : &registry().at("one-switch");
  }
  domain_ = std::min(gpus(), inside_->domain ? inside_->domain(*this) : spec_.gpus_per_node);
  if (inside_->role == Topology::Role::whole) written_ = std::make_shared<const WrittenGraph>(read_links(spec_));
  if (inside_->check) inside_->check(*this);
  if (inside_->role == Topology::Role::whole) return;
  if (spec_.gpus_per_node > 1 && spec_.nvlink.value() <= 0)
    throw UserError(fmt::format("cluster '{}' needs the link rate 'nvlink' between the GPUs of a node", spec_.name));
  if (domains() == 1) return;
  if (spec_.nics_per_node < 1 || spec_.nic.value() <= 0)
    throw UserError(
        fmt::format("cluster '{}': {} nodes need NICs and their rate ('links.scale_out')", spec_.name, spec_.nodes));
  if (spec_.gpus_per_node % spec_.nics_per_node != 0 && spec_.nics_per_node % spec_.gpus_per_node != 0)
    throw UserError(
        fmt::format("cluster '{}' needs 'nic.per_node' to divide the {} GPUs of a node, or a multiple; "
                    "found {}",
                    spec_.name, spec_.gpus_per_node, spec_.nics_per_node));
  if (fabric_->check) fabric_->check(*this);
  if (fabric_->levels) levels_ = fabric_->levels(*this);
}

Machine Machine::narrowed(double port, double wire) const {
  Machine narrow = *this;
  narrow.port_ = port, narrow.wire_ = wire, narrow.known_ = std::make_shared<Known>();
  return narrow;
}

std::vector<double> Machine::parameters(const char* name) const {
  for (const auto& [topology, choice] :
       {std::pair{inside_, &spec_.node_topology}, {inside_, &spec_.topology}, {fabric_, &spec_.topology}}) {
    if (choice->parameters.empty() || choice->name != topology->name || !declared(*topology, name)) continue;
    for (const auto& [given, values] : choice->parameters)  // of which there are few, and this is asked of every route
      if (given == name) return values;
  }
  for (const auto* topology : {inside_, fabric_})
    if (const auto* p = topology ? declared(*topology, name) : nullptr) return {p->fallback};
  INVARIANT(false, std::string("no topology of the machine has a parameter ") + name);
}

Bandwidth Machine::out_of_domain() const {
  return spec_.node_rate() * double(std::max<std::int64_t>(1, domain_ / spec_.gpus_per_node));
}

Device Machine::gpu(std::int64_t rank) const {
  return {DeviceKind::gpu, static_cast<std::uint32_t>(node(rank)), static_cast<std::uint32_t>(local(rank))};
}

std::int64_t Machine::stripes() const { return std::max<std::int64_t>(1, spec_.nics_per_node / spec_.gpus_per_node); }

Device Machine::nic(std::int64_t gpu, std::int64_t stripe) const {
  const auto n = spec_.nics_per_node, g = spec_.gpus_per_node;
  const auto index = n <= g ? local(gpu) / (g / n) : local(gpu) * (n / g) + stripe;
  return {DeviceKind::nic, static_cast<std::uint32_t>(node(gpu)), static_cast<std::uint32_t>(index)};
}

Device Machine::nic_numbered(std::int64_t number) const {
  return {DeviceKind::nic, static_cast<std::uint32_t>(number / spec_.nics_per_node),
          static_cast<std::uint32_t>(number % spec_.nics_per_node)};
}

std::int64_t Machine::gpu_at(const Device& nic) const {
  const auto n = spec_.nics_per_node, g = spec_.gpus_per_node;
  return nic.place * g + (n <= g ? nic.index * (g / n) : nic.index / (n / g));
}

Path Machine::exit(std::int64_t rank, std::int64_t stripe) const {
  Path path = inside_->exit ? inside_->exit(*this, rank) : Path{gpu(rank)};
  path.push_back(nic(rank, stripe));
  return path;
}

Link Machine::link(const Device& a, const Device& b) const {
  if (a.kind != DeviceKind::nic && b.kind == DeviceKind::nic) return link(b, a);
  if (a.kind != DeviceKind::nic) {
    const auto in_node = [](const Device& d) { return d.kind <= DeviceKind::socket || d.kind == DeviceKind::named; };
    return (in_node(a) && in_node(b) ? inside_ : fabric_)->link(*this, a, b);
  }
  if (b.kind > DeviceKind::nic) return {spec_.nic, nic_hop()};  // to its switch, whatever the fabric
  // The rest of nic_latency's first quarter, after the path to the device that the NIC is attached to.
  Time before;
  const auto path = exit(gpu_at(a), 0);
  for (std::size_t i = 2; i < path.size(); ++i) before += link(path[i - 2], path[i - 1]).latency;
  return {spec_.nic, std::max(Time{}, nic_hop() - before)};
}

Path Machine::path(std::int64_t from, std::int64_t to, std::int64_t stripe) const {
  if (from == to) return {};
  const bool same = from / domain_ == to / domain_;
  auto path = (same ? inside_ : fabric_)->path(*this, from, to, stripe);
  if (path.empty())
    throw UserError(fmt::format("cluster '{}': no path from GPU {} to GPU {}; its topology '{}' is not connected",
                                spec_.name, from, to, (same ? inside_ : fabric_)->name));
  return path;
}

std::vector<Hop> Machine::route(std::int64_t from, std::int64_t to, std::int64_t stripe) const {
  const auto path = this->path(from, to, stripe);
  std::vector<Hop> hops;
  for (std::size_t i = 1; i < path.size(); ++i) hops.push_back({path[i - 1], path[i], link(path[i - 1], path[i])});
  return hops;
}

int Machine::level(std::int64_t from, std::int64_t to) const {
  if (from / domain_ == to / domain_) return -1;
  for (std::size_t i = 0; i < levels_.size(); ++i)
    if (from / levels_[i].width == to / levels_[i].width) return static_cast<int>(i);
  return levels_.empty() ? 0 : static_cast<int>(levels_.size()) - 1;
}

std::pair<std::int64_t, std::int64_t> Machine::alike(std::int64_t from, std::int64_t to) const {
  const int at = level(from, to);
  if (at < 0)
    return inside_->uniform ? std::pair<std::int64_t, std::int64_t>{0, 1} : std::pair{from % domain_, to % domain_};
  if (levels_.empty()) return {from, to};
  return {0, at == 0 ? domain_ : levels_[static_cast<std::size_t>(at) - 1].width};
}

std::int64_t Machine::all_alike(std::int64_t from, std::int64_t to) const {
  if (!inside_->uniform || levels_.empty()) return 1;
  const auto up_to_end_of = [&](std::int64_t width) { return width - std::max(from % width, to % width); };
  std::int64_t pairs = up_to_end_of(domain_);
  for (const auto& level : levels_) pairs = std::min(pairs, up_to_end_of(level.width));
  return pairs;
}

const char* name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "GPU";
    case DeviceKind::nvswitch:
      return "NVSwitch";
    case DeviceKind::pcie_switch:
      return "PCIe switch";
    case DeviceKind::socket:
      return "socket";
    case DeviceKind::nic:
      return "NIC";
    case DeviceKind::leaf:
      return "leaf";
    case DeviceKind::spine:
      return "spine";
    case DeviceKind::core:
      return "core";
    case DeviceKind::router:
      return "router";
    case DeviceKind::named:
      return "device";
  }
  return "";
}

std::string name(const Device& d) {
  switch (d.kind) {
    case DeviceKind::gpu:
    case DeviceKind::pcie_switch:
    case DeviceKind::socket:
    case DeviceKind::nic:
      return fmt::format("node {} {} {}", d.place, name(d.kind), d.index);
    case DeviceKind::nvswitch:
      return fmt::format("{} {}", name(d.kind), d.place);
    case DeviceKind::leaf:
    case DeviceKind::spine:
      return fmt::format("{} {}.{}", name(d.kind), d.place, d.index);
    case DeviceKind::core:
    case DeviceKind::router:
    case DeviceKind::named:
      return fmt::format("{} {}", name(d.kind), d.index);
  }
  return {};
}

}  // namespace rehearsal::cluster
