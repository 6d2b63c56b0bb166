#include "cluster/written_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace rehearsal::cluster {
namespace {

// Latency in picoseconds first, links second: an order that Dijkstra may add up.
using Distance = std::pair<std::int64_t, std::int64_t>;
struct Arc {
  Distance length;
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

WrittenGraph::WrittenGraph(const std::vector<ListedLink>& listed) {
  for (const auto& l : listed) {
    for (const auto& device : {l.a, l.b})
      if (vertices.try_emplace(device, devices.size()).second) devices.push_back(device);
    for (const auto& ends : {std::pair{l.a, l.b}, std::pair{l.b, l.a}}) {
      const auto [at, fresh] = links.try_emplace(ends, l.link);
      if (!fresh) at->second = {at->second.rate + l.link.rate, std::min(at->second.latency, l.link.latency)};
    }
  }
}

Path WrittenGraph::route(const Device& from, const Device& to) const {
  const auto source = vertices.find(from), target = vertices.find(to);
  if (source == vertices.end() || target == vertices.end()) return {};
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<Arc> arcs;
  for (const auto& [pair, link] : links) {
    ends.emplace_back(vertices.at(pair.first), vertices.at(pair.second));
    arcs.push_back({{link.latency.count(), 1}});
  }
  const std::size_t n = devices.size();
  const Graph graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), arcs.begin(), n);

  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<Distance> distance(n);
  std::vector<std::size_t> previous(n);
  const auto index = get(boost::vertex_index, graph);
  const auto by_vertex = [&](auto& values) { return boost::make_iterator_property_map(values.begin(), index); };
  const auto add = [](Distance a, Distance b) { return Distance{a.first + b.first, a.second + b.second}; };
  try {
    boost::dijkstra_shortest_paths(graph, source->second, by_vertex(previous), by_vertex(distance),
                                   get(&Arc::length, graph), index, std::less<>{}, add, Distance{kFar, kFar},
                                   Distance{}, StopAt(target->second));
  } catch (const Arrived&) {  // found
  }

  Path path{to};
  for (std::size_t v = target->second; v != source->second; v = previous[v]) {
    if (previous[v] == v) return {};  // never reached
    path.push_back(devices[previous[v]]);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

WrittenGraph read_links(const ClusterSpec& spec) {
  std::map<std::string, std::uint32_t> names;
  const auto device = [&](const std::string& text) -> Device {
    std::int64_t rank = 0;
    const char* const end = text.data() + text.size();
    if (text.starts_with("gpu") && std::from_chars(text.data() + 3, end, rank).ptr == end && text.size() > 3) {
      if (rank >= spec.gpus())
        throw UserError(fmt::format("a link of cluster '{}' ends at '{}', but there are {} GPUs: gpu0 to gpu{}",
                                    spec.name, text, spec.gpus(), spec.gpus() - 1));
      return {DeviceKind::gpu, static_cast<std::uint32_t>(rank / spec.gpus_per_node),
              static_cast<std::uint32_t>(rank % spec.gpus_per_node)};
    }
    return {DeviceKind::named, 0, names.try_emplace(text, static_cast<std::uint32_t>(names.size())).first->second};
  };
  std::vector<ListedLink> links;
  for (const auto& l : spec.written) links.push_back({device(l.from), device(l.to), {l.rate, l.latency}});
  WrittenGraph graph(links);
  for (std::int64_t rank = 0; rank < spec.gpus(); ++rank) {
    const Device gpu{DeviceKind::gpu, static_cast<std::uint32_t>(rank / spec.gpus_per_node),
                     static_cast<std::uint32_t>(rank % spec.gpus_per_node)};
    if (!graph.vertices.count(gpu) && spec.gpus() > 1)
      throw UserError(
          fmt::format("no link of cluster '{}' ends at gpu{}; write one, or use fewer GPUs", spec.name, rank));
    if (rank > 0 && graph.route({DeviceKind::gpu, 0, 0}, gpu).empty())
      throw UserError(fmt::format("the links of cluster '{}' lead from gpu0 to other devices but not to gpu{}; join it",
                                  spec.name, rank));
  }
  return graph;
}

}  // namespace rehearsal::cluster
