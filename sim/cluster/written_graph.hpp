// Routes over links that are listed one by one: least latency by Dijkstra (Boost.Graph), fewest links among equals.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster/topology.hpp"

namespace rehearsal::cluster {

struct ListedLink {  // both ways
  Device a, b;
  Link link;
};

struct WrittenGraph {
  explicit WrittenGraph(const std::vector<ListedLink>& links);
  Path route(const Device& from, const Device& to) const;  // empty: there is no way
  const Link& link(const Device& a, const Device& b) const { return links.at({a, b}); }

  std::map<Device, std::size_t> vertices;
  std::vector<Device> devices;
  std::map<std::pair<Device, Device>, Link> links;  // several between the same two add up
};

// What a user wrote, with GPUs as devices of their nodes. Throws UserError: a GPU without a link, a name such as "gpu9"
// of a GPU that there is not, a GPU that another cannot reach.
WrittenGraph read_links(const ClusterSpec& spec);

}  // namespace rehearsal::cluster
