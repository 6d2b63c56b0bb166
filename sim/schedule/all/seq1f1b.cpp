// Seq1F1B (arXiv 2406.03488): 1F1B over pieces of sequences. A causal model can run the first tokens of a micro-batch
// before the others, so the unit of the pipeline shrinks to a piece: its fill shrinks, and so does what is held.
// Backwards go through a micro-batch from its last piece to its first, as gradients of keys and values flow that way.
#include <algorithm>

#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

Order order(const Problem& problem, std::uint32_t rank) {
  const auto stage = static_cast<std::uint16_t>(rank);
  const std::uint32_t q = problem.pieces.value_or(kUsualPieces), total = problem.microbatches * q;
  // As far ahead as 1F1B, and to the end of the first micro-batch, where the first backward begins.
  const auto warm_up = std::uint32_t(std::min<std::uint64_t>(std::uint64_t(problem.ranks) - 2 - rank + q, total));
  const auto backward = [=](std::uint32_t n) { return Action{n / q * q + (q - 1 - n % q), stage, Op::backward}; };
  for (std::uint32_t n = 0; n < warm_up; ++n) co_yield {n, stage, Op::forward};
  for (std::uint32_t n = warm_up; n < total; ++n) {
    co_yield {n, stage, Op::forward};
    co_yield backward(n - warm_up);
  }
  for (std::uint32_t n = total - warm_up; n < total; ++n) co_yield backward(n);
}

}  // namespace

void register_seq1f1b(Registry& registry) {
  registry.add({.name = "seq1f1b",
                .summary =
                    "1F1B over equal pieces of sequences, backwards from the last piece to the first (Seq1F1B, arXiv "
                    "2406.03488).",
                .cuts_sequences = true,
                .order = order});
}

}  // namespace rehearsal::schedule
