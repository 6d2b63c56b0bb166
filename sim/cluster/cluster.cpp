#include "cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {

NodeId Cluster::add_device(Device device) {
  const NodeId id(devices_.size());
  devices_.push_back(device);
  out_.emplace_back();
  if (device.kind == DeviceKind::gpu) gpus_.push_back(id);
  return id;
}

void Cluster::add_link(NodeId a, NodeId b, Bandwidth bandwidth, Time latency) {
  INVARIANT(a.index() < devices_.size() && b.index() < devices_.size(), "a link ends at a device that does not exist");
  // The two directions are neighbours: the reverse of link i is i ^ 1.
  out_[a.index()].push_back(LinkId(links_.size()));
  links_.push_back({a, b, bandwidth, latency});
  out_[b.index()].push_back(LinkId(links_.size()));
  links_.push_back({b, a, bandwidth, latency});
}

std::optional<LinkId> Cluster::link(NodeId from, NodeId to) const {
  // Search the end with fewer links: a leaf has thousands, a NIC a handful.
  const bool turned = out_[to.index()].size() < out_[from.index()].size();
  const auto& near = out_[(turned ? to : from).index()];
  const NodeId wanted = turned ? from : to;
  const auto found = std::find_if(near.begin(), near.end(), [&](LinkId l) { return links_[l.index()].to == wanted; });
  if (found == near.end()) return std::nullopt;
  return turned ? LinkId(found->index() ^ 1U) : *found;
}

std::span<const LinkId> Cluster::route(NodeId from, NodeId to) const {
  const auto known = routes_.find({from, to});
  if (known != routes_.end()) return known->second;
  std::vector<LinkId> links;
  if (from != to) {
    if (path_) {
      const auto stops = path_(*this, from, to);
      for (std::size_t i = 1; i < stops.size(); ++i) {
        const auto hop = link(stops[i - 1], stops[i]);
        INVARIANT(hop.has_value(), "a closed-form route uses a link that was not built");
        links.push_back(*hop);
      }
    } else {
      links = shortest_route(*this, from, to);
    }
    if (links.empty()) {
      throw UserError(
          fmt::format("cluster '{}': no path from device {} to device {}; its topology '{}' is not connected",
                      spec_.name, from.value, to.value, spec_.topology));
    }
  }
  return routes_.emplace(std::pair{from, to}, std::move(links)).first->second;
}

Time Cluster::latency(std::span<const LinkId> route) const {
  Time sum;
  for (const LinkId l : route) sum += links_[l.index()].latency;
  return sum;
}

Bandwidth Cluster::bandwidth(std::span<const LinkId> route) const {
  INVARIANT(!route.empty(), "an empty route has no bandwidth");
  Bandwidth least = links_[route.front().index()].bandwidth;
  for (const LinkId l : route) least = std::min(least, links_[l.index()].bandwidth);
  return least;
}

Cluster build(const ClusterSpec& spec) {
  const Topology& topology = registry().at(spec.topology);
  if (spec.gpus_per_node < 1 || spec.nodes < 1)
    throw UserError(fmt::format("cluster '{}' needs at least one node and one GPU per node", spec.name));
  topology.check(spec);
  Cluster cluster(spec);
  topology.build(cluster);
  INVARIANT(cluster.gpus() == spec.gpus(), "topology " + topology.name + " built another number of GPUs");
  return cluster;
}

}  // namespace rehearsal::cluster
