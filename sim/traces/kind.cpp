#include "traces/kind.hpp"

#include "base/error.hpp"

namespace rehearsal::traces {
namespace {

struct KindOf {
  graph::Pass pass;
  graph::Lane lane;

  std::optional<Kind> memory_bound() const {
    return pass == graph::Pass::optimizer ? Kind::optimizer : Kind::memory_bound;
  }
  std::optional<Kind> operator()(const Gemm&) const { return Kind::gemm; }
  std::optional<Kind> operator()(const FusedAttention&) const { return Kind::attention; }
  std::optional<Kind> operator()(const MemoryBound&) const { return memory_bound(); }
  std::optional<Kind> operator()(const Kernel& kernel) const {
    if (gemm_of(kernel)) return Kind::gemm;
    switch (kernel.kind) {
      case KernelKind::attention:
      case KernelKind::attention_gradient:
      case KernelKind::attention_part:
      case KernelKind::attention_part_gradient:
        return Kind::attention;
      default:
        return memory_bound();
    }
  }
  std::optional<Kind> operator()(const graph::OptimizerStep&) const { return Kind::optimizer; }
  std::optional<Kind> operator()(const graph::Collective&) const { return Kind::collective; }
  std::optional<Kind> operator()(const graph::Dispatch&) const { return Kind::collective; }
  std::optional<Kind> operator()(const graph::Message&) const { return Kind::message; }
  std::optional<Kind> operator()(const graph::Copy&) const { return Kind::copy; }
  std::optional<Kind> operator()(const graph::StagingCopy&) const { return Kind::copy; }
  std::optional<Kind> operator()(const graph::FixedDelay&) const {
    return graph::is_send(lane) ? Kind::message : Kind::other;  // given times of transfers, and of passes
  }
  std::optional<Kind> operator()(const graph::Receive&) const { return std::nullopt; }
  std::optional<Kind> operator()(const graph::HostBound&) const { return std::nullopt; }
  std::optional<Kind> operator()(const graph::HostStep&) const { return std::nullopt; }
  std::optional<Kind> operator()(const graph::Sequence&) const { return std::nullopt; }
  std::optional<Kind> operator()(const graph::Overlapped&) const { return std::nullopt; }
};

void visit(const graph::TaskGraph& graph, WorkId work, std::int64_t count, KindOf kind_of,
           std::span<const Time> durations, const EachKernel& kernel) {
  const graph::Work& what = graph.work(work);
  if (const auto* sequence = std::get_if<graph::Sequence>(&what)) {
    for (const auto& item : sequence->items) visit(graph, item.work, count * item.count, kind_of, durations, kernel);
  } else if (const auto* both = std::get_if<graph::Overlapped>(&what)) {
    visit(graph, both->kernel, count, kind_of, durations, kernel);
    visit(graph, both->collective, count, kind_of, durations, kernel);
  } else if (const auto kind = std::visit(kind_of, what)) {
    kernel(what, *kind, durations[work.index()] * count);
  }
}

}  // namespace

void each_kernel(const graph::TaskGraph& graph, WorkId work, graph::Pass pass, graph::Lane lane,
                 std::span<const Time> durations, const EachKernel& kernel) {
  INVARIANT(durations.size() == graph.works().size(), "one duration per work");
  visit(graph, work, 1, {pass, lane}, durations, kernel);
}

}  // namespace rehearsal::traces
