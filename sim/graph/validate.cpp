#include "graph/validate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/iterator_facade.hpp>

#include "base/error.hpp"
#include "graph/precedence.hpp"

// Precedence as a graph in the sense of Boost.Graph, without a copy: VertexListGraph, EdgeListGraph-free
// IncidenceGraph.
namespace rehearsal::graph {

struct Arc {
  Precedence::Vertex from = 0, to = 0;
  friend bool operator==(const Arc&, const Arc&) = default;
};

class ArcIterator : public boost::iterator_facade<ArcIterator, Arc, boost::forward_traversal_tag, Arc> {
 public:
  ArcIterator() = default;
  ArcIterator(Precedence::Vertex from, const Precedence::Vertex* to) : from_(from), to_(to) {}

 private:
  friend class boost::iterator_core_access;
  Arc dereference() const { return {from_, *to_}; }
  void increment() { ++to_; }
  bool equal(const ArcIterator& other) const { return to_ == other.to_; }
  Precedence::Vertex from_ = 0;
  const Precedence::Vertex* to_ = nullptr;
};

using VertexIterator = boost::counting_iterator<Precedence::Vertex>;

inline std::pair<VertexIterator, VertexIterator> vertices(const Precedence& g) {
  return {VertexIterator(0), VertexIterator(static_cast<Precedence::Vertex>(g.vertices()))};
}
inline std::size_t num_vertices(const Precedence& g) { return g.vertices(); }
inline std::pair<ArcIterator, ArcIterator> out_edges(Precedence::Vertex v, const Precedence& g) {
  const auto to = g.successors(v);
  return {ArcIterator(v, to.data()), ArcIterator(v, to.data() + to.size())};
}
inline std::size_t out_degree(Precedence::Vertex v, const Precedence& g) { return g.successors(v).size(); }
inline Precedence::Vertex source(const Arc& arc, const Precedence&) { return arc.from; }
inline Precedence::Vertex target(const Arc& arc, const Precedence&) { return arc.to; }

}  // namespace rehearsal::graph

template <>
struct boost::graph_traits<rehearsal::graph::Precedence> {
  using vertex_descriptor = rehearsal::graph::Precedence::Vertex;
  using edge_descriptor = rehearsal::graph::Arc;
  using directed_category = boost::directed_tag;
  using edge_parallel_category = boost::allow_parallel_edge_tag;
  struct traversal_category : boost::incidence_graph_tag, boost::vertex_list_graph_tag {};
  using vertex_iterator = rehearsal::graph::VertexIterator;
  using out_edge_iterator = rehearsal::graph::ArcIterator;
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;
  static vertex_descriptor null_vertex() { return UINT32_MAX; }
};

namespace rehearsal::graph {
namespace {

using Vertex = Precedence::Vertex;

// Remembers how it came to each vertex; the first back edge closes a cycle and ends the search.
struct CycleVisitor : boost::default_dfs_visitor {
  struct Found {};
  std::vector<Vertex>& parent;
  std::vector<Vertex>& cycle;

  CycleVisitor(std::vector<Vertex>& p, std::vector<Vertex>& c) : parent(p), cycle(c) {}
  void tree_edge(const Arc& arc, const Precedence&) { parent[arc.to] = arc.from; }
  void back_edge(const Arc& arc, const Precedence&) {
    for (Vertex v = arc.from; v != arc.to; v = parent[v]) cycle.push_back(v);
    cycle.push_back(arc.to);
    throw Found{};
  }
};

[[noreturn]] void broken(const std::string& message) { throw InternalError("invalid task graph: " + message); }

void check_shape(const Program& p) {
  const std::size_t n = p.size();
  if (p.lane.size() != n || p.coordinates.size() != n || p.endpoint.size() != n || p.sequence.size() != n ||
      p.dependencies.rows() != n || p.uses.rows() != n || (!p.fold.empty() && p.fold.size() != n) ||
      p.endpoint_tasks.rows() != p.endpoints.size())
    broken(fmt::format("the arrays of program '{}' differ in length", p.name));
  for (std::size_t i = 0; i < n; ++i)
    for (LocalTask before : p.dependencies[i])
      if (before.index() >= i)
        broken(fmt::format("program '{}': task {} waits for a later task, {}", p.name, i, before.value));
}

void check_endpoints(const Program& p) {
  std::vector<std::size_t> used(p.endpoints.size(), 0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const std::uint32_t e = p.endpoint[i];
    if (e == kNoEndpoint) continue;
    if (e >= p.endpoints.size()) broken(fmt::format("program '{}': task {} has no such endpoint", p.name, i));
    const auto tasks = p.endpoint_tasks[e];
    if (p.sequence[i] != used[e] || used[e] >= tasks.size() || tasks[used[e]].index() != i)
      broken(fmt::format("program '{}': task {} is not use {} of endpoint {}", p.name, i, p.sequence[i], e));
    ++used[e];
  }
  for (std::size_t e = 0; e < used.size(); ++e)
    if (used[e] != p.endpoint_tasks[e].size())
      broken(fmt::format("program '{}': endpoint {} lists {} tasks but {} use it", p.name, e,
                         p.endpoint_tasks[e].size(), used[e]));
}

// In the order of local ids, which is one possible order of execution: allocate, then reads and writes, then free.
void check_buffers(const Program& p) {
  enum class Life : std::uint8_t { before, alive, after };
  std::vector<Life> life(p.buffers.size(), Life::before);
  std::fill_n(life.begin(), p.residents, Life::alive);
  auto wrong = [&p](std::size_t task, BufferId buffer, const char* what) {
    broken(fmt::format("program '{}': task {} {} buffer {}", p.name, task, what, buffer.value));
  };
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (const BufferUse& use : p.uses[i]) {
      if (use.id().index() >= life.size()) wrong(i, use.id(), "uses an unknown");
      if (use.how() != Access::allocate) continue;
      if (life[use.id().index()] != Life::before) wrong(i, use.id(), "allocates a second time");
      life[use.id().index()] = Life::alive;
    }
    for (const BufferUse& use : p.uses[i])
      if (use.how() != Access::allocate && life[use.id().index()] != Life::alive)
        wrong(i, use.id(),
              life[use.id().index()] == Life::after
                  ? (use.how() == Access::free ? "frees a second time" : "uses, after it was freed,")
                  : (use.how() == Access::free ? "frees, before it was allocated," : "uses, before it was allocated,"));
    for (const BufferUse& use : p.uses[i])
      if (use.how() == Access::free) {
        if (use.id().index() < p.residents) wrong(i, use.id(), "frees the resident");
        if (life[use.id().index()] == Life::after) wrong(i, use.id(), "frees a second time");
        life[use.id().index()] = Life::after;
      }
  }
}

void check_channels(const TaskGraph& graph) {
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const Rank& rank = graph.ranks()[r];
    const Program& program = graph.program_of(rank);
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) {
      if (program.endpoints[e] == EndpointKind::group) continue;
      const Attachment& other = rank.attachments[e];
      const Rank& peer = graph.ranks()[other.peer.index()];
      const Attachment& back = peer.attachments[other.peer_endpoint.index()];
      if (back.peer != RankId(r) || back.peer_endpoint != EndpointId(e))
        broken(fmt::format("endpoint {} of rank {} and its other end do not point at each other", e, r));
      const auto theirs = graph.program_of(peer).endpoint_tasks[other.peer_endpoint.index()].size();
      if (theirs != program.endpoint_tasks[e].size())
        broken(fmt::format("the channel between rank {} and rank {} is used {} and {} times", r, other.peer.value,
                           program.endpoint_tasks[e].size(), theirs));
    }
  }
}

void check_groups(const TaskGraph& graph) {
  for (const Group& group : graph.groups()) {
    if (group.members.empty()) broken("group '" + name(group.axes) + "' has no members");
    auto tasks = [&graph](const GroupMember& m) {
      return graph.program_of(graph.ranks()[m.rank.index()]).endpoint_tasks[m.endpoint.index()];
    };
    auto work = [&graph](const GroupMember& m, LocalTask t) {
      return graph.program_of(graph.ranks()[m.rank.index()]).work[t.index()];
    };
    const GroupMember& first = group.members.front();
    for (const GroupMember& member : group.members) {
      if (tasks(member).size() != tasks(first).size())
        broken(fmt::format("group '{}': rank {} joins {} times, rank {} joins {} times", name(group.axes),
                           first.rank.value, tasks(first).size(), member.rank.value, tasks(member).size()));
      for (std::size_t k = 0; k < tasks(first).size(); ++k)
        if (work(member, tasks(member)[k]) != work(first, tasks(first)[k]))
          broken(fmt::format("group '{}', use {}: rank {} does '{}' but rank {} does '{}'", name(group.axes), k,
                             first.rank.value, describe(graph.work(work(first, tasks(first)[k]))), member.rank.value,
                             describe(graph.work(work(member, tasks(member)[k])))));
    }
  }
}

}  // namespace

void validate(const TaskGraph& graph) {
  for (const Program& program : graph.programs()) {
    check_shape(program);
    check_endpoints(program);
    check_buffers(program);
  }
  check_channels(graph);
  check_groups(graph);
  if (const auto cycle = find_cycle(graph); !cycle.empty())
    broken(fmt::format("a cycle, each waits for the one before:\n  {}", fmt::join(cycle, "\n  ")));
}

std::vector<std::string> find_cycle(const TaskGraph& graph) {
  BOOST_CONCEPT_ASSERT((boost::IncidenceGraphConcept<Precedence>));
  BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<Precedence>));
  const Precedence order(graph);
  std::vector<Vertex> parent(order.vertices()), cycle;
  std::vector<boost::default_color_type> color(order.vertices());
  auto colors = boost::make_iterator_property_map(color.begin(), boost::typed_identity_property_map<Vertex>{});
  try {
    boost::depth_first_search(order, CycleVisitor(parent, cycle), colors);
  } catch (const CycleVisitor::Found&) {
  }
  std::vector<std::string> labels;
  for (auto v = cycle.rbegin(); v != cycle.rend(); ++v) labels.push_back(order.label(*v));
  return labels;
}

}  // namespace rehearsal::graph
