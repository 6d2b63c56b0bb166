#include "timeline/split.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/wide.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Category;
using graph::Lane;
using graph::Pass;

// What the category of a work depends on besides the work.
struct Context {
  Pass pass = Pass::forward;
  Lane lane = Lane::compute;
  bool recompute = false;
};

struct CategoryOf {
  Context context;

  Category kernel() const { return context.recompute ? Category::recompute : Category::compute; }
  Category operator()(const Gemm&) const { return kernel(); }
  Category operator()(const FusedAttention&) const { return kernel(); }
  Category operator()(const MemoryBound&) const {
    return context.pass == Pass::optimizer ? Category::optimizer : kernel();
  }
  Category operator()(const Kernel&) const { return context.pass == Pass::optimizer ? Category::optimizer : kernel(); }
  Category operator()(const graph::StagingCopy&) const { return Category::pipeline_comm; }
  Category operator()(const graph::Collective& w) const {
    return is_data_parallel(context.pass, context.lane) ? Category::data_comm
                                                        : graph::info(graph::lane_beside(w.inside)).idle_is;
  }
  Category operator()(const graph::Dispatch&) const { return Category::expert_comm; }
  Category operator()(const graph::Overlapped&) const { return kernel(); }  // of one without duration
  Category operator()(const graph::Message&) const { return Category::pipeline_comm; }
  Category operator()(const graph::Receive&) const { return Category::pipeline_comm; }
  Category operator()(const graph::OptimizerStep&) const { return Category::optimizer; }
  Category operator()(const graph::FixedDelay&) const {
    return context.pass == Pass::optimizer ? Category::optimizer : kernel();
  }
  Category operator()(const graph::HostBound&) const { return Category::host; }
  Category operator()(const graph::Copy&) const { return Category::offload; }
  Category operator()(const graph::HostStep&) const { return Category::offload; }
  Category operator()(const graph::Sequence& sequence) const {  // of one without duration
    return !sequence.items.empty() && sequence.items.front().recompute ? Category::recompute : kernel();
  }
};

// Adds `count` times the work to `parts`, by the given durations.
void accumulate(const graph::TaskGraph& graph, WorkId work, std::int64_t count, Context context,
                std::span<const Time> durations, Breakdown& parts) {
  INVARIANT(durations.size() == graph.works().size(), "one duration per work");
  const graph::Work& what = graph.work(work);
  if (const auto* sequence = std::get_if<graph::Sequence>(&what)) {
    for (const graph::Sequence::Item& item : sequence->items) {
      Context inner = context;
      inner.recompute = context.recompute || item.recompute;
      accumulate(graph, item.work, count * item.count, inner, durations, parts);
    }
  } else if (const auto* both = std::get_if<graph::Overlapped>(&what)) {  // the kernel, and what shows beside it
    const Time computed = durations[both->kernel.index()];
    accumulate(graph, both->kernel, count, context, durations, parts);
    parts[static_cast<std::size_t>(std::visit(CategoryOf{context}, graph.work(both->collective)))] +=
        (durations[work.index()] - computed) * count;
  } else {
    parts[static_cast<std::size_t>(std::visit(CategoryOf{context}, what))] += durations[work.index()] * count;
  }
}

// Scales `parts` to sum to `span`: rounded down, and the remainder goes to the largest part (the first of equals).
Breakdown scaled(const Breakdown& parts, Time span, Category when_all_zero) {
  std::int64_t total = 0;
  for (Time part : parts) total += part.count();
  Breakdown result{};
  if (total == 0) {
    result[static_cast<std::size_t>(when_all_zero)] = span;
    return result;
  }
  Time rest = span;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    result[c] = Time(static_cast<std::int64_t>(Wide{span.count()} * parts[c].count() / total));
    rest -= result[c];
  }
  *std::max_element(result.begin(), result.end()) += rest;
  return result;
}

Breakdown alone(const graph::TaskGraph& graph, WorkId work, Context context, std::span<const Time> durations) {
  Breakdown parts{};
  accumulate(graph, work, 1, context, durations, parts);
  return parts;
}

// `parts`: of the work alone.
Breakdown stretched(Breakdown parts, const graph::TaskGraph& graph, WorkId work, Context context, Time span,
                    std::span<const Time> durations, bool predicted) {
  if (const Time alone = durations[work.index()]; predicted && span > alone && alone > Time{}) {
    parts = scaled(parts, alone, Category::contention);
    parts[static_cast<std::size_t>(Category::contention)] += span - alone;
    return parts;
  }
  return scaled(parts, span, std::visit(CategoryOf{context}, graph.work(work)));
}

Context context_of(const graph::Program& program, std::size_t task) {
  const Pass pass = program.coordinates[task].pass;
  return {pass, program.lane[task], pass == Pass::recompute};
}

}  // namespace

Category category_of(const graph::Work& work, Pass pass, Lane lane) {
  return std::visit(CategoryOf{{pass, lane, pass == Pass::recompute}}, work);
}

bool is_data_parallel(Pass pass, Lane lane) {
  return graph::info(lane).idle_is == Category::data_comm || pass == Pass::gradient_reduce ||
         pass == Pass::parameter_gather || pass == Pass::embedding_reduce;
}

Breakdown split(const graph::TaskGraph& graph, WorkId work, std::span<const Time> durations) {
  return stretched(alone(graph, work, {}, durations), graph, work, {}, durations[work.index()], durations, false);
}

Breakdown split_task(const graph::TaskGraph& graph, const graph::Program& program, std::size_t task, Time span,
                     std::span<const Time> durations, bool predicted) {
  return Splits(graph, durations).task(program, task, span, predicted);
}

Breakdown Splits::task(const graph::Program& program, std::size_t task, Time span, bool predicted) {
  const WorkId work = program.work[task];
  const auto context = context_of(program, task);
  const auto [known, fresh] = known_.try_emplace({work, context.pass, context.lane});
  if (fresh) known->second = alone(graph_, work, context, durations_);
  return stretched(known->second, graph_, work, context, span, durations_, predicted);
}

}  // namespace rehearsal::timeline
