// Which task must start before which: dependencies, lane order, channels and groups of a whole graph as one relation.
//
// A vertex is a task, except that the tasks of one use of a group start together and share a vertex. An edge u -> v
// says that v cannot start before u has started (and, but for lanes of messages, ended), so a cycle is a deadlock.
// About 8 bytes per task and 4 per edge; for checks and pictures, not for evaluation.
#pragma once
#include <span>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::graph {

class Precedence {
 public:
  using Vertex = std::uint32_t;

  explicit Precedence(const TaskGraph& graph);

  std::size_t vertices() const { return tasks_.size(); }
  std::size_t edges() const { return targets_.size(); }
  std::span<const Vertex> successors(Vertex v) const {
    return {targets_.data() + offsets_[v], targets_.data() + offsets_[v + 1]};
  }
  // "rank 0: F3 s2 send", or "tensor[3] of ranks 0, 1: F3 s2 all-reduce".
  std::string label(Vertex v) const;

 private:
  const TaskGraph& graph_;
  std::vector<TaskId> tasks_;  // of each vertex; of a group use, that of the first member
  std::vector<std::uint64_t> offsets_;
  std::vector<Vertex> targets_;
};

}  // namespace rehearsal::graph
