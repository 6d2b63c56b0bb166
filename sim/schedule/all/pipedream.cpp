// PipeDream (arXiv 1806.03377) and PipeDream-2BW (arXiv 2006.09503): 1F1B that never drains. An update does not wait
// for the micro-batches under way, so the pipeline has no bubble once it is full, and pays with gradients of old
// weights: each micro-batch runs backward with the weights of its forward, which a rank keeps until then.
//
// The order of m micro-batches is that of 1F1B; what a run of them costs includes filling and draining once.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/wide.hpp"
#include "schedule/one_f_one_b.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

// Time per micro-batch of a pipeline that runs for ever: the largest mean over the cycles of dependencies, the time
// around a cycle divided by the micro-batches it advances (Baccelli et al., Synchronization and Linearity, 1992).
// F(r,k) waits for F(r-1,k); B(r,k) for B(r+1,k); on rank r, B(r,k) follows F(r,k+w) and F(r,k+w+1) follows B(r,k),
// with w = p-1-r forwards ahead. Forwards lead only down the ranks and backwards only up, so a cycle that passes
// nothing twice goes down from some rank i to some j and back: F(i..j), then B(j..i). It advances w_i + 1 - w_j = j-i+1
// micro-batches and takes what ranks i..j do for one, with two transfers over each of the j-i gaps. (j = i: a rank's
// own work.) The largest of these means is found as Dinkelbach does: with the best mean so far, look for an interval
// whose excess over it is positive, until there is none.
Time steady_state(const Problem& problem) {
  const auto work = [&](std::uint32_t r) {
    return problem.forward[r] + problem.time({0, static_cast<std::uint16_t>(r), Op::backward});
  };
  Wide time = work(0).count(), count = 1;  // the best mean
  for (bool better = true; better;) {
    better = false;
    Wide best_excess = 0, best_time = 0, best_count = 0;
    Wide excess = 0, sum = 0, length = 0;  // of the best interval that ends at r
    for (std::uint32_t r = 0; r < problem.ranks; ++r) {
      const Wide own = work(r).count(), hop = r > 0 ? 2 * problem.transfer[r - 1].count() : 0;
      const bool extend = length > 0 && excess + hop * count > 0;
      sum = (extend ? sum + hop : 0) + own;
      length = (extend ? length : 0) + 1;
      excess = sum * count - length * time;
      if (excess > best_excess) best_excess = excess, best_time = sum, best_count = length;
    }
    if (best_excess > 0) time = best_time, count = best_count, better = true;
  }
  return Time(static_cast<std::int64_t>((time + count / 2) / count));
}

// PipeDream updates after every backward: between the forward and the backward of a micro-batch a rank updates once for
// each of the p-1-r micro-batches ahead of it.
Asynchrony pipedream(const Problem& problem) {
  Asynchrony result;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    result.staleness.push_back(problem.ranks - 1 - rank);
    result.weight_versions.push_back(problem.ranks - rank);
  }
  result.steady_state = steady_state(problem);
  return result;
}

// 2BW updates after every m micro-batches, and m is no smaller than the pipeline: so the micro-batches under way belong
// to two updates at most, and every rank computes with the weights before the last one.
Asynchrony double_buffered(const Problem& problem) {
  return {std::vector<std::uint32_t>(problem.ranks, 2), std::vector<std::uint32_t>(problem.ranks, 1),
          steady_state(problem)};
}

void check_filled(const Problem& problem) {
  if (problem.microbatches >= problem.ranks) return;
  throw UserError(
      fmt::format("schedule pipedream-2bw: {} micro-batches per update are fewer than the {} ranks, so more than two "
                  "versions of the weights would be in use; use at least {}",
                  problem.microbatches, problem.ranks, problem.ranks));
}

}  // namespace

void register_pipedream(Registry& registry) {
  registry.add({.name = "pipedream",
                .summary =
                    "1F1B without a flush, an update after every backward: no bubble once full, p-rank weight versions "
                    "(PipeDream, arXiv 1806.03377).",
                .order = one_f_one_b_order,
                .updates = Updates::every_backward,
                .asynchrony = pipedream});
  registry.add({.name = "pipedream-2bw",
                .summary =
                    "1F1B without a flush, an update after every m micro-batches from weights one update old, two "
                    "versions (PipeDream-2BW, arXiv 2006.09503).",
                .check = check_filled,
                .order = one_f_one_b_order,
                .updates = Updates::late,
                .asynchrony = double_buffered});
}

}  // namespace rehearsal::schedule
