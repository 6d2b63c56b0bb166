#include "schedule/search/orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"
#include "schedule/search/bound.hpp"

namespace rehearsal::schedule::search {

Programs programs(const Model& model, const std::vector<Move>& moves) {
  static constexpr Op kOps[] = {Op::forward, Op::input_gradient, Op::weight_gradient};
  Programs result(model.ranks);
  State state(model);  // only counts
  for (const Move& move : moves) {
    const auto kind = static_cast<std::size_t>(move.kind);
    result[model.rank[move.stage]].push_back({state.stage[move.stage].done[kind]++, move.stage, kOps[kind]});
  }
  return result;
}

// A full backward is relaxed to halves that take no longer: an input gradient that ends no later, and the rest.
Time lower_bound(const Problem& problem, Placement placement) {
  Problem relaxed = problem;
  if (!problem.backward.empty())
    for (std::uint32_t s = 0; s < problem.stages(); ++s) {
      const Time halves = problem.input_gradient[s] + problem.weight_gradient[s], full = problem.backward[s];
      relaxed.input_gradient[s] = std::min(problem.input_gradient[s], full);
      relaxed.weight_gradient[s] = std::min(halves, full) - relaxed.input_gradient[s];
    }
  const Model model(relaxed, placement);
  return Time(Bound(model)(State(model), std::numeric_limits<Ticks>::max()));
}

bool full_backward_is_faster(const Problem& problem) {
  for (std::uint32_t s = 0; s < problem.backward.size(); ++s)
    if (problem.backward[s] < problem.input_gradient[s] + problem.weight_gradient[s]) return true;
  return false;
}

void check_limit(const char* name, const Problem& problem, double least) {
  if (usable(problem.memory_limit) >= least) return;
  throw UserError(
      fmt::format("schedule {}: memory_limit {} is too small for one micro-batch on every rank; give at least {}", name,
                  *problem.memory_limit, least));
}

std::function<bool()> deadline(std::optional<Time> limit) {
  if (!limit) return {};
  const auto start = std::chrono::steady_clock::now();
  const double most = to_seconds(*limit);
  return
      [start, most] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= most; };
}

}  // namespace rehearsal::schedule::search
