// Programs of a few kernels, by hand, and a worker that runs them.
#pragma once
#include <vector>

#include "cpu/cpu_worker.hpp"
#include "graph/builder.hpp"

namespace rehearsal::cpu {

using graph::Access, graph::BufferUse, graph::MemoryCategory;

// Builds a program of kernels, one after the other.
struct Bench {
  graph::GraphBuilder graph;
  graph::ProgramBuilder program{"stage 0"};

  BufferId resident(std::int64_t bytes, MemoryCategory category = MemoryCategory::buffers) {
    return program.resident({Bytes(bytes), category});
  }
  BufferId buffer(std::int64_t floats) { return program.buffer({Bytes(4 * floats), MemoryCategory::activations}); }
  void add(const graph::Work& work, std::vector<BufferUse> uses, std::uint32_t endpoint = graph::kNoEndpoint) {
    program.add({graph.intern(work), graph::Lane::compute, {graph::Pass::forward, 0, 0, 0}, endpoint, {}}, {}, uses);
  }
  void add(KernelKind kind, KernelDims dims, std::vector<BufferUse> uses) {
    add(Kernel{kind, dims, {}}, std::move(uses));
  }
  graph::TaskGraph one_rank(std::uint32_t tensor = 0, std::uint32_t data = 0, std::uint32_t context = 0) {
    graph.add_rank(graph.add(std::move(program).finish()), 1, 0, 0,
                   RankPlace{{tensor, context, data, 0}, 0, data + context});
    return std::move(graph).finish();
  }
};

inline backend::RunOptions training(const backend::TrainingData& learning) {
  backend::RunOptions options;
  options.compute = backend::Compute::real;
  options.learning = learning;
  return options;
}

inline void step(dispatch::Worker& worker, const graph::TaskGraph& graph, int number) {
  worker.begin_step(number);
  for (std::size_t t = 0; t < graph.programs()[0].size(); ++t)
    worker.enter(LocalTask(t)), worker.perform(LocalTask(t)), worker.leave(LocalTask(t));
}

}  // namespace rehearsal::cpu
