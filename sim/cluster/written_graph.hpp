// Routes over links that are listed one by one: least latency by Dijkstra (Boost.Graph), fewest links among equals.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/topology.hpp"

namespace rehearsal::cluster {

struct ListedLink {  // both ways
  Device a, b;
  Link link;
};

class WrittenGraph {
 public:
  explicit WrittenGraph(const std::vector<ListedLink>& links);
  WrittenGraph(WrittenGraph&&) noexcept;
  ~WrittenGraph();
  bool knows(const Device& device) const { return vertices_.contains(device); }
  Path route(const Device& from, const Device& to) const;  // empty: there is no way. From several threads at once.
  const Link& link(const Device& a, const Device& b) const { return links_.at({a, b}); }
  const std::map<Device, std::size_t>& vertices() const { return vertices_; }
  const std::map<std::pair<Device, Device>, Link>& links() const { return links_; }

 private:
  struct Routes;  // the graph, and shortest-path trees of those sources that were asked for

  std::map<Device, std::size_t> vertices_;
  std::vector<Device> devices_;
  std::map<std::pair<Device, Device>, Link> links_;  // several between the same two add up
  std::unique_ptr<Routes> routes_;
};

// What a user wrote, with GPUs as devices of their nodes. Throws UserError: a GPU without a link, a name such as "gpu9"
// of a GPU that there is not, a GPU that another cannot reach.
WrittenGraph read_links(const ClusterSpec& spec);

}  // namespace rehearsal::cluster
