// The steps of attention around a ring of context ranks: one step, or all of them over gathered blocks.
#pragma once
#include <cstdint>

#include "base/kernels.hpp"
#include "kernels/cut.hpp"

namespace rehearsal::kernels {

struct RingStep {
  Cut own, from;           // of the rank that has the queries, and of the rank that has the keys
  std::int64_t block = 0;  // first element of the block
  bool first = false;      // whether this step starts the sums
};

// dims of the kernel: b heads s d Sight kv c step. A block of which no query sees anything is left out, but for the
// first.
template <class Each>
void each_step(const Kernel& kernel, std::int64_t own, const Each& each) {
  const auto [b, heads, s, d, sees, kv, c, step] = kernel.dims;
  Sight sight = sight_of(sees);
  // Chunks of documents begin anywhere: no farther back than a window of as many positions.
  if (sight.documents > 0) sight.chunked = false;
  const std::int64_t ranks = ranks_of_cut(c), block = b * s * 2 * kv_heads(kernel) * d;
  const Cut cut{ranks, own, sight.mask == Mask::causal_balanced};
  const bool all = step == kAllBlocks;
  for (std::int64_t k = all ? 0 : step; k < (all ? ranks : step + 1); ++k) {
    const std::int64_t from = (own + ranks - k % ranks) % ranks;
    const bool seen = cut.of(from).position(s - 1, s) >= sight.first(cut.position(0, s));
    if (k == 0 || seen) each(RingStep{cut, cut.of(from), all ? from * block : 0, k == 0});
  }
}

}  // namespace rehearsal::kernels
