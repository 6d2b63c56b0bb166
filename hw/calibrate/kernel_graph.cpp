#include "calibrate/kernel_graph.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "graph/builder.hpp"

namespace rehearsal::calibrate {
namespace {

using graph::Access;

constexpr int kRounds = 6, kIterations = 3;
constexpr std::int64_t kCacheLine = 16;  // floats of a cache line

}  // namespace

bool fits_kernel_graph(KernelKind kind) {
  return !slots_operand(kind) && !uses_data(kind) && !adds_loss(kind) && !traits(kind).optimizer;
}

KernelGraph kernel_graph(std::span<const Kernel> kernels, unsigned ranks, Bytes footprint) {
  KernelGraph result;
  result.rounds = kRounds;
  result.kernels.assign(kernels.begin(), kernels.end());
  // One resident buffer per operand position, large enough for the rotation of every kernel.
  std::array<std::int64_t, kMostOperands> largest{};
  struct Rotation {
    std::array<std::int64_t, kMostOperands> stride{};
    std::int64_t sets = 1;
    std::size_t operands = 0;
  };
  std::vector<Rotation> rotations;
  for (const auto& k : kernels) {
    INVARIANT(fits_kernel_graph(k.kind), "a kernel that needs more than buffers");
    const auto needed = operand_elements(k, 0);
    Rotation r{.operands = needed.count};
    std::int64_t set = 0;
    for (std::size_t i = 0; i < needed.count; i++)
      r.stride[i] = (needed.elements[i] + kCacheLine - 1) / kCacheLine * kCacheLine, set += 4 * r.stride[i];
    r.sets = std::clamp<std::int64_t>(footprint.count() / set, 1, 256);
    for (std::size_t i = 0; i < needed.count; i++) largest[i] = std::max(largest[i], r.sets * r.stride[i]);
    rotations.push_back(r);
  }
  graph::GraphBuilder builder;
  graph::ProgramBuilder program("kernels");
  std::vector<BufferId> buffers;
  for (const auto elements : largest)
    if (elements > 0) buffers.push_back(program.resident({Bytes(4 * elements), graph::MemoryCategory::workspace}));
  std::int64_t at = 0;
  for (std::size_t k = 0; k < kernels.size(); k++)
    for (int round = 0; round < kRounds; round++, at++) {
      Kernel kernel{kernels[k].kind, kernels[k].dims, {}};
      std::vector<graph::BufferUse> uses;
      for (std::size_t i = 0; i < rotations[k].operands; i++) {
        kernel.offsets[i] = at % rotations[k].sets * rotations[k].stride[i];
        uses.emplace_back(buffers[i], Access::write);  // as an operand; whether it is read does not matter here
      }
      program.add({.work = builder.intern(kernel), .coordinates = {}}, {}, uses);
    }
  const auto id = builder.add(std::move(program).finish());
  for (unsigned r = 0; r < ranks; r++) builder.add_rank(id, 1, r);
  result.graph = std::move(builder).finish();
  return result;
}

backend::RunOptions kernel_graph_options() {
  backend::RunOptions options;
  options.compute = backend::Compute::real;
  options.times_matter = false;  // crowding was checked before
  options.weights = false;
  options.warmup = 1;
  options.iterations = kIterations;
  return options;
}

TaskTimes read_kernel_graph(const KernelGraph& measured, const timeline::Timeline& timeline) {
  const auto& graph = measured.graph;
  const auto tasks = graph.programs().front().size();
  INVARIANT(tasks == measured.kernels.size() * std::size_t(measured.rounds), "as many tasks as were built");
  TaskTimes result;
  std::vector<Time> between;
  for (std::size_t k = 0; k < measured.kernels.size(); k++) {
    std::vector<Time> times;
    for (const auto& spans : timeline.iterations)
      for (std::size_t r = 0; r < graph.ranks().size(); r++)
        for (std::size_t i = k * std::size_t(measured.rounds); i < (k + 1) * std::size_t(measured.rounds); i++) {
          const auto task = graph.task(RankId(r), LocalTask(i)).index();
          times.push_back(std::max(spans.end[task] - spans.start[task], picoseconds(1000)));
          if (i > 0) between.push_back(spans.start[task] - spans.end[task - 1]);
        }
    const auto s = spread(times);
    result.kernels.push_back({measured.kernels[k], s.p10, s.p50, s.p90});
  }
  result.between = spread(between);
  return result;
}

}  // namespace rehearsal::calibrate
