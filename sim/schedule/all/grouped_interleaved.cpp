// Grouped interleaving of PipeOffload (sail-sg, arXiv 2503.01328): groups shorter than the pipeline hold fewer
// activations. It is built from a block that repeats every 3*g*v cells: forward number n of a rank (groups as in
// interleaved-1f1b) in cell 3n + rank, backward number n in cell 3(n + lead) + rank + 1, its weight gradient in the
// next one.
#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

std::uint32_t group_of(const Problem& problem) { return problem.group.value_or(problem.ranks); }

// Between the first forward and the first backward of a rank: the rest of its first group, v-1 more, and the way to the
// last rank and back.
Order order(const Problem& problem, std::uint32_t rank) {
  const std::uint64_t m = problem.microbatches, v = problem.chunks, g = group_of(problem);
  const std::uint64_t slots = (m + g - 1) / g * g * v;  // the last group is padded: its cells stay empty
  const std::uint64_t lead = (v - 1) * g + (problem.ranks - 1 - rank);
  const auto at = [&](std::uint64_t slot, Op op) {
    const std::uint64_t chunk = slot % (g * v) / g;
    const auto c = static_cast<std::uint32_t>(op == Op::forward ? chunk : v - 1 - chunk);
    return Action{static_cast<std::uint32_t>(slot / (g * v) * g + slot % g),
                  static_cast<std::uint16_t>(stage_of(Placement::loop, problem, rank, c)), op};
  };
  for (std::uint64_t slot = 0; slot < slots + lead; ++slot) {
    if (slot < slots) {
      const Action forward = at(slot, Op::forward);
      if (forward.microbatch < m) co_yield forward;
    }
    if (slot >= lead) {
      const Action backward = at(slot - lead, Op::input_gradient);
      if (backward.microbatch >= m) continue;
      co_yield backward;
      co_yield {backward.microbatch, backward.stage, Op::weight_gradient};
    }
  }
}

// Chunk c+1 of a group begins on rank 0 after 3g cells, when its first micro-batch has come through p ranks, one cell
// each; backwards take two cells per rank more. Delaying later ranks shares that out, which needs 6g >= 3p - 2.
void check_group(const Problem& problem) {
  const std::uint32_t p = problem.ranks, group = group_of(problem), least = (p + 1) / 2;
  if (group >= least && group <= p) return;
  throw UserError(
      fmt::format("schedule grouped-interleaved: groups of {} on {} ranks: a group has from {} (half the ranks) to {} "
                  "micro-batches; "
                  "set group to {}",
                  group, p, least, p, group < least ? least : p));
}

}  // namespace

void register_grouped_interleaved(Registry& registry) {
  registry.add({.name = "grouped-interleaved",
                .summary = "Interleaved chunks in groups of half to all ranks, weight gradient right after its input "
                           "gradient: small groups hold less (PipeOffload, arXiv 2503.01328).",
                .min_chunks = 1,
                .max_chunks = kMaxStages,
                .splits_backward = true,
                .any_graph = true,
                .check = check_group,
                .order = order});
}

}  // namespace rehearsal::schedule
