#include "schedule/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/sha256.hpp"
#include "schedule/text.hpp"

namespace rehearsal::schedule {
namespace {

bool meets_limit(const Problem& problem, const Replay& replay) {
  return problem.memory_limit && std::all_of(replay.peak_memory.begin(), replay.peak_memory.end(),
                                             [&](double peak) { return peak <= *problem.memory_limit; });
}

}  // namespace

// Let rank r hold the stages s0 < ... < s1 of S and start at time t. Its first action is F(s0,k) for some k.
// 1. Before its first input gradient starts, rank r can only run forwards. That gradient belongs to some stage s of r
//    and some k, and needs F(s0,k) ... F(S-1,k), I(S-1,k) ... I(s+1,k) one after the other, with a transfer wherever
//    the rank changes; F(s0,k) starts at t or later. The chain is shortest for s = s1, so no gradient of r starts
//    before t + D, D = sum F(s0..S-1) + sum I(s1+1..S-1) + their transfers.
// 2. All m*(I+W) of r come after that moment, and so its span >= D + m*(I+W); it also holds all its work. Together:
//    span >= max(D, m*F) + m*(I+W), with F, I, W summed over the stages of r.
// 3. Under a memory limit L at most K = floor(L / least activation) forwards are done before the first gradient, so of
//    the m*F all but K * longest F come after it: span >= D + (m*F - K * longest F) + m*(I+W).
// A full backward B is I and W without the gap, and ends later than I alone; where it has a time of its own, the
// shorter of both counts. A rank of two chains takes the shorter D; a piece of a micro-batch passes in its share.
// Of stages that are no chain each rank's own work counts alone.
// An overlapped pair of F(s) and B(t) shortens all that by F(s) + B(t) minus its own time: each forward at most once.
Time lower_bound(const Schedule& schedule, const Problem& problem, bool within_limit) {
  const auto placement = schedule.placement;
  const std::uint32_t stages = problem.stages(), pieces = schedule::pieces(schedule, problem);
  const std::int64_t m = units(schedule, problem) / pieces;  // of a stage
  const auto hop = [&](std::uint32_t s) {                    // from stage s to s+1, or back
    return rank_of(placement, problem, s) == rank_of(placement, problem, s + 1) ? Time() : problem.transfer[s];
  };
  const auto full = [&](std::uint32_t s) { return problem.time({0, static_cast<std::uint16_t>(s), Op::backward}); };
  const auto both = [&](std::uint32_t s) {
    return std::min(problem.input_gradient[s] + problem.weight_gradient[s], full(s));
  };
  // The least time of one piece of a micro-batch.
  const auto& pairs = problem.overlapped;
  const auto piece = [&](Time whole) { return Time(whole.count() / pieces); };
  const auto forward_of = [&](std::uint32_t s) {
    return piece(pairs.empty() ? problem.forward[s] : std::min(problem.forward[s], pairs[s]));
  };
  const auto gradient_of = [&](std::uint32_t s) {
    const Time alone = std::min(problem.input_gradient[s], full(s));
    return piece(pairs.empty() ? alone : std::min(alone, *std::min_element(pairs.begin(), pairs.end())));
  };
  // The time of a micro-batch from stage s upwards, and on its way back down to stage s.
  std::vector<Time> forward_from(stages + 1), gradient_after(stages);
  for (std::uint32_t s = stages; s-- > 0;) {
    const bool last = last_of_chain(placement, problem, s);
    forward_from[s] = forward_of(s) + (last ? Time() : hop(s) + forward_from[s + 1]);
    gradient_after[s] = last ? Time() : hop(s) + gradient_of(s + 1) + gradient_after[s + 1];
  }
  Time bound;
  for (std::uint32_t rank = 0; rank < problem.ranks; rank++) {
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> ends;  // per chain: lowest and highest stage
    Time forward, gradients, longest, longest_backward, saved;
    double least_activation = INFINITY;
    for (std::uint32_t c = 0; c < problem.chunks; c++) {
      const auto s = stage_of(placement, problem, rank, c);
      auto& [lowest, highest] = ends.try_emplace(s / chain_length(placement, problem), s, s).first->second;
      lowest = std::min(lowest, s), highest = std::max(highest, s);
      forward += m * problem.forward[s];
      gradients += m * both(s);
      longest = std::max(longest, problem.forward[s]);
      longest_backward = std::max(longest_backward, full(s));
      least_activation = std::min(least_activation, problem.activation[s]);
    }
    if (!pairs.empty())
      for (std::uint32_t c = 0; c < problem.chunks; c++) {
        const auto s = stage_of(placement, problem, rank, c);
        saved += m * std::max(Time(), problem.forward[s] + longest_backward - pairs[s]);
      }
    Time delay(INT64_MAX);
    for (const auto& [chain, stage] : ends)
      delay = std::min(delay, forward_from[stage.first] + gradient_after[stage.second]);
    Time before = std::max(forward, delay);
    if (within_limit && problem.memory_limit && least_activation > 0) {
      // The slack keeps the bound true where the quotient of two doubles falls just below a whole number.
      const double fit = std::floor(*problem.memory_limit / least_activation * pieces * (1 + 1e-9)) / pieces;
      if (fit * double(longest.count()) < double(forward.count()))
        before = std::max(before, delay + forward - Time(std::int64_t(std::ceil(fit * double(longest.count())))));
    }
    const bool graph = !problem.edges.empty() || placement == Placement::vocabulary;
    if (graph) before = forward;  // what follows a stage is no chain
    bound = std::max(bound, before + gradients - saved);
  }
  return bound;
}

Evaluation evaluate(const Schedule& schedule, Problem problem, const Wishes& wishes) {
  Evaluation result;
  result.schedule = planned(schedule, problem);
  result.problem = std::move(problem);
  const Problem& p = result.problem;
  check(result.schedule, p);
  const std::uint64_t cells = std::uint64_t(p.microbatches) * p.stages();  // an order has 2 or 3 actions for each
  const bool draw = wishes.picture && cells * 2 <= kPictureLimit;
  const bool keep =
      wishes.order == WantOrder::always || (wishes.order == WantOrder::when_small && cells * 2 <= kOrderLimit);

  std::vector<std::string> order(keep ? p.ranks : 0);
  std::vector<RowText> rows(order.size(), RowText(pieces(result.schedule, p)));
  ReplayOptions options;
  if (wishes.picture) result.first_start.assign(p.ranks, Time(-1)), result.last_end.assign(p.ranks, Time());
  if (keep || wishes.picture) {
    options.visit = [&](const ReplayedAction& a) {
      if (keep) rows[a.rank].append(order[a.rank], a.action);
      if (!wishes.picture) return;
      if (result.first_start[a.rank] < Time()) result.first_start[a.rank] = a.start;
      result.last_end[a.rank] = a.end;
      if (draw) result.actions.push_back(a);
    };
  }
  result.replay = replay(result.schedule, p, options);
  if (result.replay.actions > kPictureLimit) result.actions.clear();

  if (keep) {
    Sha256 hash;
    for (std::size_t r = 0; r < order.size(); r++) {
      if (r) hash.update("\n");
      hash.update(order[r]);
    }
    result.sha256 = hash.hex();
    if (wishes.order == WantOrder::always || result.replay.actions <= kOrderLimit) result.order = std::move(order);
  } else {
    result.sha256 = order_sha256(result.schedule, p);
  }
  result.lower_bound = lower_bound(result.schedule, p, meets_limit(p, result.replay));
  // The proof of a search, over all orders, may be stronger than the general bound.
  if (result.schedule.lower_bound) result.lower_bound = std::max(result.lower_bound, *result.schedule.lower_bound);
  return result;
}

std::vector<std::uint32_t> chunks_of_stages(const Evaluation& result) {
  std::vector<std::uint32_t> chunks(result.problem.stages());
  for (std::uint32_t rank = 0; rank < result.problem.ranks; rank++)
    for (std::uint32_t c = 0; c < result.problem.chunks; c++)
      chunks[stage_of(result.schedule.placement, result.problem, rank, c)] = c;
  return chunks;
}

}  // namespace rehearsal::schedule
