#include "hosts/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "base/error.hpp"

namespace rehearsal::hosts {
namespace {

using cluster::Device;
using cluster::DeviceKind;
using cluster::Machine;

// Of names of devices, what an interface may be called: "leaf 0.1" is "leaf0-1".
std::string plain(std::string name) {
  std::erase(name, ' ');
  std::replace(name.begin(), name.end(), '.', '-');
  return name;
}

void check(const Machine& machine, const Settings& settings) {
  const auto& spec = machine.spec();
  if (spec.nodes < 2)
    throw UserError(
        fmt::format("cluster '{}' has one node: there is no network to make hosts of; give it several, for example "
                    "--set cluster.nodes=2",
                    spec.name));
  if (machine.fabric().role == cluster::Topology::Role::whole)
    throw UserError(
        fmt::format("topology '{}' joins GPUs, and hosts are nodes that NICs join; take one of 'rehearse list "
                    "topologies' that joins nodes",
                    machine.fabric().name));
  if (machine.domain() > spec.gpus_per_node)
    throw UserError(
        fmt::format("topology '{}': NVLink joins GPUs of several nodes, and hosts have NICs alone between them; "
                    "use 'nvswitch' inside nodes",
                    machine.inside().name));
  if (spec.nodes > kMostHosts)
    throw UserError(
        fmt::format("the cluster has {} nodes, and one machine makes {} hosts at most; --set cluster.nodes=N takes a "
                    "part of it",
                    spec.nodes, kMostHosts));
  if (spec.nics_per_node > kMostNics)
    throw UserError(fmt::format("a node has {} NICs, and a host {} at most", spec.nics_per_node, kMostNics));
  for (const auto& [nic, loss] : settings.loss)
    if (nic < 0 || nic >= machine.nics())
      throw UserError(fmt::format("--loss names NIC {}, and the cluster has NIC 0 to {}", nic, machine.nics() - 1));
}

// A prediction spreads what went over a NIC that is down over the others of its node; hosts do that by themselves, and
// each link has its own share here: one that is down has next to nothing left, and is taken down for it.
constexpr double kDown = 1e-9;
std::vector<cluster::Fault> barely_left(std::vector<cluster::Fault> faults) {
  for (auto& fault : faults)
    if (fault.rate == 0) fault.rate = kDown;
  return faults;
}

// The devices from NIC `rail` of a node to that of another, both included.
cluster::Path between_nics(const Machine& machine, std::int64_t from, std::int64_t to, std::int64_t rail) {
  const auto end = [&](std::int64_t node) {
    return Device{DeviceKind::nic, static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(rail)};
  };
  const auto gpu = machine.gpu_at(end(from));
  std::int64_t stripe = 0;
  while (stripe + 1 < machine.stripes() && machine.nic(gpu, stripe) != end(from)) ++stripe;
  const auto path = machine.path(gpu, machine.gpu_at(end(to)), stripe);
  const auto first = std::find(path.begin(), path.end(), end(from));
  const auto last = std::find(first, path.end(), end(to));
  if (last == path.end())
    throw UserError(
        fmt::format("topology '{}' does not join NIC {} of node {} to that of node {} by switches alone, and hosts "
                    "need that",
                    machine.fabric().name, rail, from, to));
  return {first, last + 1};
}

class Planner {
 public:
  Planner(const Machine& machine, const std::vector<cluster::Fault>& faults, const Settings& settings)
      : machine_(machine), health_(machine, barely_left(faults)), settings_(settings) {}

  Plan operator()() {
    const auto& spec = machine_.spec();
    plan_.topology = machine_.fabric().name;
    plan_.efficiency = settings_.efficiency;
    plan_.loss = settings_.loss;
    plan_.slots = spec.gpus_per_node;
    plan_.nics = spec.nics_per_node;
    plan_.hosts = static_cast<std::size_t>(spec.nodes);
    for (std::int64_t node = 0; node < spec.nodes; ++node) plan_.places.push_back({fmt::format("node{}", node), true});
    for (std::int64_t rail = 0; rail < plan_.nics; ++rail)
      for (std::int64_t from = 0; from < spec.nodes; ++from)
        for (std::int64_t to = 0; to < spec.nodes; ++to)
          if (from != to) paths_.push_back({from, to, rail, between_nics(machine_, from, to, rail)});
    for (const auto& path : paths_)
      for (std::size_t i = 1; i < path.devices.size(); ++i) join(path.devices[i - 1], path.devices[i]);
    cluster::Health::Cables crossed;
    for (const auto& [ends, number] : cables_) crossed.insert(std::minmax(ends.first, ends.second));
    health_.check_crossed(crossed);
    scale();
    plan_.routed = has_rings();
    if (plan_.routed) route();
    return std::move(plan_);
  }

 private:
  struct Between {
    std::int64_t from, to, rail;
    cluster::Path devices;
  };

  std::size_t place_of(const Device& device) {
    if (device.kind == DeviceKind::nic) return device.place;
    const auto [at, fresh] = switches_.try_emplace(device, plan_.places.size());
    if (fresh) plan_.places.push_back({plain(name(device)), false});
    return at->second;
  }

  // What an end is called at `here`: a NIC by its number, a port by what is behind it.
  static std::string interface(const Device& here, const Device& there) {
    if (here.kind == DeviceKind::nic) return fmt::format("nic{}", here.index);
    if (there.kind == DeviceKind::nic) return fmt::format("node{}-{}", there.place, there.index);
    return plain(name(there));
  }

  void join(const Device& from, const Device& to) {
    const bool nic = from.kind == DeviceKind::nic || to.kind == DeviceKind::nic;
    const auto& [a, b] = to.kind == DeviceKind::nic || (!nic && to < from) ? std::pair{to, from} : std::pair{from, to};
    if (!cables_.try_emplace({a, b}, plan_.cables.size()).second) return;
    const auto link = machine_.link(a, b);
    Cable cable;
    cable.a = {place_of(a), interface(a, b)}, cable.b = {place_of(b), interface(b, a)};
    cable.there = fmt::format("{} to {}", name(a), name(b)), cable.back = fmt::format("{} to {}", name(b), name(a));
    cable.rate = link.rate, cable.left = health_.link(a, b);
    if (cable.left <= kDown) cable.left = 0;
    if (nic && a.index == 0 && cable.left == 0)
      throw UserError(
          fmt::format("{} is down, by which its host is reached; let another NIC of that node be down", name(a)));
    if (nic) {
      cable.nic = name(a);
      cable.latency = machine_.spec().nic_latency;  // all of it: a message leaves one NIC
      const auto number = std::int64_t(a.place) * plan_.nics + a.index;
      if (const auto loss = settings_.loss.find(number); loss != settings_.loss.end()) cable.loss = loss->second;
    } else {
      cable.latency = link.latency;
    }
    plan_.cables.push_back(std::move(cable));
  }

  void scale() {
    Bandwidth fastest;
    for (const auto& cable : plan_.cables) fastest = std::max(fastest, cable.rate);
    plan_.scale = settings_.scale > 0 ? settings_.scale : std::max(1., fastest / kFastest);
    constexpr Bandwidth kSlowest(1e3);
    for (auto& cable : plan_.cables) {
      cable.rate = cable.rate / plan_.scale;
      if (cable.rate < kSlowest)
        throw UserError(
            fmt::format("--scale {:g} leaves a link {:.3g} bytes a second; the kernel shapes from {:.0f} on",
                        plan_.scale, cable.rate.value(), kSlowest.value()));
    }
  }

  bool has_rings() const {
    std::vector<std::size_t> above(plan_.places.size());
    std::iota(above.begin(), above.end(), 0);
    const auto root = [&](std::size_t place) {
      while (above[place] != place) place = above[place];
      return place;
    };
    for (const auto& cable : plan_.cables) {
      if (plan_.places[cable.a.place].host)
        continue;  // NICs of one host may hang on one switch: a host bridges nothing
      const auto a = root(cable.a.place), b = root(cable.b.place);
      if (a == b) return true;
      above[a] = b;
    }
    return false;
  }

  // The way to an address is that of the first sender; others whose way differs have one of their own.
  void route() {
    std::map<std::pair<std::size_t, std::string>, std::string> usual;
    std::set<std::pair<std::size_t, std::pair<std::string, std::string>>> own;
    for (const auto& path : paths_) {
      const auto from = address(std::size_t(path.from), path.rail), to = address(std::size_t(path.to), path.rail);
      for (std::size_t i = 1; i + 1 < path.devices.size(); ++i) {
        const auto place = switches_.at(path.devices[i]);
        const auto port = interface(path.devices[i], path.devices[i + 1]);
        const auto [known, fresh] = usual.try_emplace({place, to}, port);
        if (fresh)
          plan_.ways.push_back({place, to, port});
        else if (known->second != port && own.insert({place, {from, to}}).second)
          plan_.ways.push_back({place, to, port, from});
      }
    }
  }

  const Machine& machine_;
  const cluster::Health health_;
  const Settings& settings_;
  Plan plan_;
  std::vector<Between> paths_;
  std::map<Device, std::size_t> switches_;
  std::map<std::pair<Device, Device>, std::size_t> cables_;
};

}  // namespace

std::string address(std::size_t host, std::int64_t nic) { return fmt::format("10.77.{}.{}", nic, host + 1); }

std::string address(const Cable& cable) {
  return cable.nic.empty() ? "" : address(cable.a.place, std::stoll(cable.a.interface.substr(std::strlen("nic"))));
}

Plan plan(const Machine& machine, const std::vector<cluster::Fault>& faults, const Settings& settings) {
  check(machine, settings);
  return Planner(machine, faults, settings)();
}

}  // namespace rehearsal::hosts
