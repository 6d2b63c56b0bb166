// Breadth-first pipeline (arXiv 2211.05953): a rank takes all micro-batches through one chunk before the next, so that
// each chunk's parameters are gathered and its gradients reduced once per pass. As in torch.distributed.pipelining the
// backwards take the micro-batches in descending order.
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

Order order(const Problem& problem, std::uint32_t rank) {
  const std::uint32_t m = problem.microbatches, v = problem.chunks;
  for (std::uint32_t c = 0; c < v; ++c)
    for (std::uint32_t k = 0; k < m; ++k)
      co_yield {k, static_cast<std::uint16_t>(stage_of(Placement::loop, problem, rank, c)), Op::forward};
  for (std::uint32_t c = v; c-- > 0;)
    for (std::uint32_t k = m; k-- > 0;)
      co_yield {k, static_cast<std::uint16_t>(stage_of(Placement::loop, problem, rank, c)), Op::backward};
}

// Two phases like GPipe's, each of mv actions per rank, filled once. Rank 0 takes up the next chunk without waiting if
// the first micro-batch has come round by then: p stages and transfers fit under the m actions of a chunk. Rank 0 opens
// and closes.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  if (!times) return std::nullopt;
  const std::int64_t p = problem.ranks, m = problem.microbatches, v = problem.chunks;
  const Time c = p > 1 ? times->transfer : Time();
  const auto comes_round = [&](Time action) { return p * (action + c) <= m * action; };
  if (v > 1 && (!comes_round(times->forward) || !comes_round(times->backward))) return std::nullopt;
  return ClosedForm{(m * v + p - 1) * times->combined() + 2 * (p - 1) * c,
                    std::vector<double>(problem.ranks, double(m * v))};
}

}  // namespace

void register_looped_bfs(Registry& registry) {
  registry.add({.name = "looped-bfs",
                .summary =
                    "Breadth first: all micro-batches through one chunk, then through the next; holds everything "
                    "(arXiv 2211.05953, torch.distributed.pipelining LoopedBFS).",
                .min_chunks = 1,
                .max_chunks = kMaxStages,
                .one_chunk = "gpipe",
                .any_graph = true,
                .order = order,
                .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
