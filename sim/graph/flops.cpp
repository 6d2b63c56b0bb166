#include "graph/flops.hpp"

#include <vector>

namespace rehearsal::graph {

Flops flops(const Work& work, std::span<const Work> works) {
  if (const auto* gemm = std::get_if<Gemm>(&work)) return gemm->flops();
  if (const auto* attention = std::get_if<FusedAttention>(&work)) {
    auto whole = *attention;
    whole.causal = false;
    if (whole.counted_keys > 0) whole.keys = whole.counted_keys;
    return whole.flops();
  }
  if (const auto* kernel = std::get_if<Kernel>(&work)) return kernel->flops();
  if (const auto* both = std::get_if<Overlapped>(&work)) return flops(works[both->kernel.index()], works);
  Flops sum;
  if (const auto* sequence = std::get_if<Sequence>(&work))
    for (const auto& item : sequence->items) sum += flops(works[item.work.index()], works) * double(item.count);
  return sum;
}

Flops executed_flops(const TaskGraph& graph) {
  std::vector<Flops> of_work;
  for (const auto& work : graph.works()) of_work.push_back(flops(work, graph.works()));
  std::vector<Flops> of_program;
  for (const auto& program : graph.programs()) {
    Flops sum;
    for (const WorkId work : program.work) sum += of_work[work.index()];
    of_program.push_back(sum);
  }
  Flops total;
  for (const auto& rank : graph.ranks()) total += of_program[rank.program.index()] * double(rank.multiplicity);
  return total;
}

}  // namespace rehearsal::graph
