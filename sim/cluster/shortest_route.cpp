#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/range/iterator_range.hpp>
#include <limits>
#include <utility>

#include "cluster/cluster.hpp"

namespace rehearsal::cluster {
namespace {

// Latency in picoseconds first, links second: an order that Dijkstra may add up.
using Distance = std::pair<std::int64_t, std::int64_t>;
struct Arc {
  Distance length;
  std::uint32_t link = 0;
};
using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Arc>;

// Ends the search when the destination leaves the queue.
struct Arrived {};
class StopAt : public boost::default_dijkstra_visitor {
 public:
  explicit StopAt(std::size_t target) : target_(target) {}
  void examine_vertex(std::size_t vertex, const Graph&) const {
    if (vertex == target_) throw Arrived();
  }

 private:
  std::size_t target_;
};

}  // namespace

std::vector<LinkId> shortest_route(const Cluster& cluster, NodeId from, NodeId to) {
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<Arc> arcs;
  for (std::size_t i = 0; i < cluster.links().size(); ++i) {
    const Link& link = cluster.links()[i];
    ends.emplace_back(link.from.index(), link.to.index());
    arcs.push_back({{link.latency.count(), 1}, static_cast<std::uint32_t>(i)});
  }
  const std::size_t n = cluster.devices().size();
  const Graph graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), arcs.begin(), n);

  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<Distance> distance(n);
  std::vector<std::size_t> previous(n);
  const auto index = get(boost::vertex_index, graph);
  const auto by_vertex = [&](auto& values) { return boost::make_iterator_property_map(values.begin(), index); };
  const auto add = [](Distance a, Distance b) { return Distance{a.first + b.first, a.second + b.second}; };
  try {
    boost::dijkstra_shortest_paths(graph, from.index(), by_vertex(previous), by_vertex(distance),
                                   get(&Arc::length, graph), index, std::less<>{}, add, Distance{kFar, kFar},
                                   Distance{}, StopAt(to.index()));
  } catch (const Arrived&) {  // found
  }

  std::vector<LinkId> route;
  for (std::size_t v = to.index(); v != from.index(); v = previous[v]) {
    if (previous[v] == v) return {};  // never reached
    for (const auto e : boost::make_iterator_range(out_edges(previous[v], graph))) {
      if (target(e, graph) == v && add(distance[previous[v]], graph[e].length) == distance[v]) {
        route.push_back(LinkId(graph[e].link));
        break;
      }
    }
  }
  std::reverse(route.begin(), route.end());
  return route;
}

}  // namespace rehearsal::cluster
