#include "schedule/search/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/memory_limit.hpp"

namespace rehearsal::schedule::search {

Model::Model(const Problem& problem, Placement placement)
    : ranks(problem.ranks),
      stages(problem.stages()),
      microbatches(problem.microbatches),
      stages_of(problem.ranks),
      activation(problem.activation),
      hold(problem.weight_hold),
      limit(usable(problem.memory_limit)),
      first_start(problem.ranks),
      moving_ahead_is_safe(problem.chunks == 1) {
  for (std::uint32_t s = 0; s < stages; ++s) {
    rank.push_back(rank_of(placement, problem, s));
    stages_of[rank[s]].push_back(s);
    forward.push_back(problem.forward[s].count());
    input.push_back(problem.input_gradient[s].count());
    weight.push_back(problem.weight_gradient[s].count());
    moving_ahead_is_safe = moving_ahead_is_safe && hold[s] <= activation[s];
  }
  for (std::uint32_t s = 0; s + 1 < stages; ++s)
    hop.push_back(rank[s] == rank[s + 1] ? 0 : problem.transfer[s].count());
  hop.push_back(0);
  Ticks reached = 0;
  std::vector<bool> seen(ranks);
  for (std::uint32_t s = 0; s < stages; ++s) {
    if (!seen[rank[s]]) first_start[rank[s]] = reached;
    seen[rank[s]] = true;
    reached += forward[s] + hop[s];
  }
  find_precedences();
  find_tails();
}

void Model::find_precedences() {
  inputs_before.assign(std::size_t(stages) * microbatches, 0);
  weights_before = inputs_before;
  if (std::isinf(limit)) return;
  const double most = limit * (1 + 1e-9);  // sums of doubles: never forbid what the replay would accept
  for (std::uint32_t s = 0; s < stages; ++s) {
    const auto& mine = stages_of[rank[s]];
    // When F(s,k) is issued, the stages of this rank up to s have run k+1 forwards. If no stage of the rank has run
    // more than b input gradients, their b cannot have given back more than everything of b micro-batches.
    double held = 0;
    bool shrinks = true;
    for (std::uint32_t t : mine) {
      if (t <= s) held += activation[t];
      shrinks = shrinks && hold[t] <= activation[t];
    }
    std::uint32_t b = 0;  // does not fall as k grows
    for (std::uint32_t k = 0; shrinks && held > 0 && k < microbatches; ++k) {
      while (b<k&& double(k + 1 - b) * held> most) ++b;
      inputs_before[at(s, k)] = b;
      if (mine.size() > 1 || hold[s] <= 0) continue;
      const double need = double(k + 1) * activation[s] - double(k) * (activation[s] - hold[s]) - most;
      if (need > 0)
        weights_before[at(s, k)] = static_cast<std::uint32_t>(std::min(double(k), std::ceil(need / hold[s])));
    }
  }
}

void Model::find_tails() {
  const std::size_t n = std::size_t(stages) * microbatches;
  forward_tail.assign(n, 0), input_tail.assign(n, 0), weight_tail.assign(n, 0);
  // The first forward of a stage that memory delays until input gradient k of its rank's highest stage, or until weight
  // gradient k of the stage. Found from the end, as k falls.
  std::vector<std::uint32_t> after_input(stages, microbatches), after_weight(stages, microbatches);
  for (std::uint32_t k = microbatches; k-- > 0;) {
    const bool last = k + 1 == microbatches;
    const Ticks left = microbatches - 1 - k;
    for (std::uint32_t s = 0; s < stages; ++s) {
      const auto back = [&](std::uint32_t& first, const std::vector<std::uint32_t>& before) {
        while (first > k + 1 && before[at(s, first - 1)] > k) --first;
        return first;
      };
      const Ticks all = forward[s] + input[s] + weight[s], start = first_start[rank[s]];
      Ticks& w = weight_tail[at(s, k)];
      w = last ? -start : weight[s] + weight_tail[at(s, k + 1)];
      const std::uint32_t later = back(after_weight[s], weights_before);
      if (later == microbatches) continue;
      w = std::max(w, forward[s] + forward_tail[at(s, later)]);
      w = std::max(w, (microbatches - later) * all + (later - 1 - k) * weight[s] - start);
    }
    for (std::uint32_t s = 0; s < stages; ++s) {
      const Ticks rest = left * input[s] + (left + 1) * weight[s] - first_start[rank[s]];
      const auto& mine = stages_of[rank[s]];
      Ticks& i = input_tail[at(s, k)];
      i = std::max(rest, weight[s] + weight_tail[at(s, k)]);
      if (!last) i = std::max(i, input[s] + input_tail[at(s, k + 1)]);
      if (s > 0) i = std::max(i, hop[s - 1] + input[s - 1] + input_tail[at(s - 1, k)]);
      if (mine.back() != s) continue;
      for (std::uint32_t t : mine) {
        std::uint32_t& later = after_input[t];
        while (later > k + 1 && inputs_before[at(t, later - 1)] > k) --later;
        if (later == microbatches) continue;
        i = std::max(i, forward[t] + forward_tail[at(t, later)]);
        if (mine.size() == 1) i = std::max(i, (microbatches - later) * forward[s] + rest);
      }
    }
    for (std::uint32_t s = stages; s-- > 0;) {
      Ticks& f = forward_tail[at(s, k)];
      f = std::max(input[s] + input_tail[at(s, k)],
                   left * forward[s] + (left + 1) * (input[s] + weight[s]) - first_start[rank[s]]);
      if (!last) f = std::max(f, forward[s] + forward_tail[at(s, k + 1)]);
      if (s + 1 < stages) f = std::max(f, hop[s] + forward[s + 1] + forward_tail[at(s + 1, k)]);
    }
  }
}

double least_limit(const Problem& problem, Placement placement) {
  double most = 0;
  std::vector<double> held(problem.ranks), peak(problem.ranks);
  const auto add = [&](std::uint32_t s, double amount) {
    const std::uint32_t r = rank_of(placement, problem, s);
    held[r] += amount;
    peak[r] = std::max(peak[r], held[r]);
  };
  for (std::uint32_t s = 0; s < problem.stages(); ++s) add(s, problem.activation[s]);
  for (std::uint32_t s = problem.stages(); s-- > 0;) {
    add(s, problem.weight_hold[s] - problem.activation[s]);
    add(s, -problem.weight_hold[s]);
  }
  for (double p : peak) most = std::max(most, p);
  return most;
}

}  // namespace rehearsal::schedule::search
