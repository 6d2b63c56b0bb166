// A program several times over: the same endpoints and resident buffers, buffers of its own for each iteration.
#pragma once
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph {

class Repeat {
 public:
  // `into` must be empty; it gets the endpoints and the residents of `one`, which must outlive this object.
  Repeat(const Program& one, ProgramBuilder& into);

  void begin();  // an iteration
  // The dependencies of a task within the current iteration, whose earlier tasks have been added.
  std::vector<LocalTask> dependencies(std::size_t task) const;
  LocalTask add(std::size_t task, WorkId work, std::span<const LocalTask> after);

  // The copy of a buffer in the current iteration.
  BufferId buffer(BufferId of_one) const { return buffers_[of_one.index()]; }
  // [k * n + i]: the copy in iteration k of task i of n.
  const std::vector<LocalTask>& at() const { return at_; }

 private:
  const Program& one_;
  ProgramBuilder& into_;
  std::vector<BufferId> residents_, buffers_;
  std::vector<LocalTask> at_;
  std::size_t base_ = 0;  // start of the current iteration in at_
};

}  // namespace rehearsal::graph
