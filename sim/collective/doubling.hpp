// Reduce-scatter and all-gather in log2 n steps of growing messages (Bruck et al. 1997), shared by the two collectives:
// NCCL's PAT is this pattern, with its large steps cut to the size of a buffer.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "collective/collective.hpp"

namespace rehearsal::collective {

// ceil(log2 n), 0 for one rank.
inline std::uint32_t doubling_steps(std::uint32_t n) {
  return n > 1 ? static_cast<std::uint32_t>(std::bit_width(n - 1)) : 0;
}

// After step k rank r holds the parts r .. r + 2^(k+1) - 1: it passes on what it has to rank r - 2^k.
inline std::vector<std::vector<Transfer>> doubling_all_gather(std::uint32_t n) {
  std::vector<std::vector<Transfer>> steps;
  for (std::uint32_t far = 1; far < n; far *= 2) {
    auto& step = steps.emplace_back();
    for (std::uint32_t r = 0; r < n; ++r)
      for (std::uint32_t i = 0; i < std::min(far, n - far); ++i)
        step.push_back({r, (r + n - far) % n, (r + i) % n, false});
  }
  return steps;
}

// The way back: who received a part hands its sum to whom it came from.
inline std::vector<std::vector<Transfer>> doubling_reduce_scatter(std::uint32_t n) {
  auto steps = doubling_all_gather(n);
  std::reverse(steps.begin(), steps.end());
  for (auto& step : steps)
    for (auto& t : step) t = {t.to, t.from, t.chunk, true};
  return steps;
}

inline double doubling_time(std::uint32_t n, Bytes size, const Wires& w) {
  if (n <= 1) return 0;
  return w.fixed + doubling_steps(n) * w.latency + (1 - 1. / n) * seconds_for(size, w.rate);
}

}  // namespace rehearsal::collective
