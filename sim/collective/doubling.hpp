// Reduce-scatter and all-gather in log2 n steps of growing messages (Bruck et al. 1997), shared by the two collectives:
// NCCL's PAT is this pattern, with its large steps cut to the size of a buffer.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "collective/collective.hpp"

namespace rehearsal::collective {

// ceil(log2 n), 0 for one rank.
inline std::uint32_t doubling_steps(std::uint32_t n) {
  return n > 1 ? static_cast<std::uint32_t>(std::bit_width(n - 1)) : 0;
}

// After step k rank r holds the parts r .. r + 2^(k+1) - 1: it sends what it has to rank r - 2^k.
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

// The reverse: the receiver of a part sends its sum back to the rank that the part came from.
inline std::vector<std::vector<Transfer>> doubling_reduce_scatter(std::uint32_t n) {
  auto steps = doubling_all_gather(n);
  std::reverse(steps.begin(), steps.end());
  for (auto& step : steps)
    for (auto& t : step) t = {t.to, t.from, t.chunk, true};
  return steps;
}

// Rates relative to rings and PAT's steps: facts of NCCL 2.30, src/graph/tuning.cc.
inline constexpr double kPatRate = .75;
inline constexpr double kPatHops = 3.5;        // steps in the time of one hop of a ring
inline constexpr double kPatPerRank = 2.8e-6;  // s

// log2 n steps in one node; as NCCL's PAT among nodes of one GPU each.
inline double doubling_time(Shape s, Bytes size, const Wires& w) {
  if (s.ranks <= 1) return 0;
  const double sent = 1 - 1. / s.ranks;
  if (s.nodes() <= 1) return w.fixed + doubling_steps(s.ranks) * w.latency + sent * seconds_for(size, w.rate);
  return w.fixed + sent * seconds_for(size, w.net_rate * kPatRate) +
         std::log2(double(s.ranks)) / kPatHops * w.net_latency + kPatPerRank * s.ranks;
}

inline void doubling_in_nccl(Algorithm& pat) {
  pat.applies = [](Shape s, const cluster::Interconnect&) { return s.nodes() > 1 && s.per_node == 1; };
  pat.needs = "several nodes, one GPU of each";
  pat.why = [](Shape s) { return fmt::format("one GPU a node: log2 k steps instead of {} hops", s.ranks - 1); };
}

}  // namespace rehearsal::collective
