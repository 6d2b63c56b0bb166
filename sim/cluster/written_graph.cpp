#include "cluster/written_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <charconv>
#include <limits>
#include <mutex>

#include "base/error.hpp"

namespace rehearsal::cluster {

struct WrittenGraph::Routes {
  // Latency in picoseconds first, links second: an order that Dijkstra may add up.
  using Distance = std::pair<std::int64_t, std::int64_t>;
  struct Arc {
    Distance length;
  };
  using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Arc>;
  static constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  Graph graph;
  std::vector<Time> least;         // latency of the quickest link of a vertex
  std::vector<std::size_t> alone;  // its neighbour, where it has one only
  std::mutex mutex;
  std::vector<std::vector<std::size_t>> trees;  // by source: the vertex before each, itself where there is no way

  const std::vector<std::size_t>& tree(std::size_t source) {
    const std::lock_guard lock(mutex);
    auto& previous = trees[source];
    if (!previous.empty()) return previous;
    previous.resize(num_vertices(graph));
    std::vector<Distance> distance(previous.size());
    const auto index = get(boost::vertex_index, graph);
    const auto by_vertex = [&](auto& values) { return boost::make_iterator_property_map(values.begin(), index); };
    const auto add = [](Distance a, Distance b) { return Distance{a.first + b.first, a.second + b.second}; };
    boost::dijkstra_shortest_paths(graph, source, by_vertex(previous), by_vertex(distance), get(&Arc::length, graph),
                                   index, std::less<>{}, add, Distance{kFar, kFar}, Distance{},
                                   boost::default_dijkstra_visitor());
    return previous;
  }
};

WrittenGraph::WrittenGraph(const std::vector<ListedLink>& listed) : routes_(std::make_unique<Routes>()) {
  for (const auto& l : listed) {
    for (const auto& device : {l.a, l.b})
      if (vertices_.try_emplace(device, devices_.size()).second) devices_.push_back(device);
    for (const auto& ends : {std::pair{l.a, l.b}, std::pair{l.b, l.a}}) {
      const auto [at, fresh] = links_.try_emplace(ends, l.link);
      if (!fresh) at->second = {at->second.rate + l.link.rate, std::min(at->second.latency, l.link.latency)};
    }
  }
  const std::size_t n = devices_.size();
  routes_->least.assign(n, Time(Routes::kFar)), routes_->alone.assign(n, Routes::kNone), routes_->trees.resize(n);
  std::vector<std::size_t> neighbours(n, 0);
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<Routes::Arc> arcs;
  for (const auto& [pair, link] : links_) {
    const auto from = vertices_.at(pair.first), to = vertices_.at(pair.second);
    ends.emplace_back(from, to);
    arcs.push_back({{link.latency.count(), 1}});
    routes_->least[from] = std::min(routes_->least[from], link.latency);
    routes_->alone[from] = ++neighbours[from] == 1 ? to : Routes::kNone;
  }
  routes_->graph = Routes::Graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), arcs.begin(), n);
}

WrittenGraph::WrittenGraph(WrittenGraph&&) noexcept = default;
WrittenGraph::~WrittenGraph() = default;

Path WrittenGraph::route(const Device& from, const Device& to) const {
  const auto source = vertices_.find(from), target = vertices_.find(to);
  if (source == vertices_.end() || target == vertices_.end()) return {};
  if (source == target) return {from};
  // A detour takes one link away from `from` and one towards `to`: a direct link of no more latency is best.
  if (const auto direct = links_.find({from, to});
      direct != links_.end() &&
      direct->second.latency <= routes_->least[source->second] + routes_->least[target->second])
    return {from, to};
  const auto alone = routes_->alone[source->second];
  const auto root = alone == Routes::kNone ? source->second : alone;
  Path path;
  if (root != target->second) {
    const auto& previous = routes_->tree(root);
    for (std::size_t v = target->second; v != root; v = previous[v]) {
      if (previous[v] == v) return {};  // never reached
      path.push_back(devices_[v]);
    }
  } else {
    path.push_back(to);
  }
  if (root != target->second) path.push_back(devices_[root]);
  if (root != source->second) path.push_back(from);
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
    if (!graph.knows(gpu) && spec.gpus() > 1)
      throw UserError(
          fmt::format("no link of cluster '{}' ends at gpu{}; write one, or use fewer GPUs", spec.name, rank));
    if (rank > 0 && graph.route({DeviceKind::gpu, 0, 0}, gpu).empty())
      throw UserError(fmt::format("the links of cluster '{}' lead from gpu0 to other devices but not to gpu{}; join it",
                                  spec.name, rank));
  }
  return graph;
}

}  // namespace rehearsal::cluster
