#include "schedule/one_f_one_b.hpp"

#include <algorithm>

namespace rehearsal::schedule {

Order one_f_one_b_order(const Problem& problem, std::uint32_t rank) {
  const auto stage = static_cast<std::uint16_t>(rank);
  const std::uint32_t m = problem.microbatches;
  const std::uint32_t warm_up = std::min(problem.ranks - 1 - rank, m);
  for (std::uint32_t k = 0; k < warm_up; ++k) co_yield {k, stage, Op::forward};
  for (std::uint32_t k = warm_up; k < m; ++k) {
    co_yield {k, stage, Op::forward};
    co_yield {k - warm_up, stage, Op::backward};
  }
  for (std::uint32_t k = m - warm_up; k < m; ++k) co_yield {k, stage, Op::backward};
}

}  // namespace rehearsal::schedule
