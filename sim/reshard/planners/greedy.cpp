// The original's randomised greedy: repeatedly selects the best of many random sets of tasks that can run at once.
// More tasks are better, then a more even load of senders; the length of its tasks is ignored.
#include <algorithm>

#include "base/random.hpp"
#include "reshard/registry.hpp"

namespace rehearsal::reshard {
namespace {

constexpr std::int64_t kTrials = 100;            // per set, as in the original
constexpr std::int64_t kMostSteps = 50'000'000;  // for thousands of tasks, fewer trials keep it within this limit

using Chosen = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // task, sender

// The original's weights: a free sender weighs (largest load among the free ones) - (its load) + 1.
std::uint32_t draw(const std::vector<std::uint32_t>& free, const std::vector<std::int64_t>& load, Random& random) {
  if (free.size() == 1) return free.front();
  std::int64_t most = 0;
  for (const auto s : free) most = std::max(most, load[s]);
  double all = 0;
  for (const auto s : free) all += double(most - load[s] + 1);
  double ticket = random.fraction() * all;
  for (const auto s : free) {
    const auto weight = double(most - load[s] + 1);
    if (ticket < weight) return s;
    ticket -= weight;
  }
  return free.back();
}

Found greedy(const Problem& problem) {
  const auto& tasks = problem.tasks;
  Random random(problem.seed);
  std::vector<std::uint32_t> remaining = natural_order(problem), order, sender(tasks.size());
  std::vector<std::int64_t> load(problem.senders);
  // In the worst case every set has one task, and all trials together examine trials x n^2 / 2 tasks.
  const auto n = std::int64_t(tasks.size());
  const std::int64_t trials = std::clamp<std::int64_t>(2 * kMostSteps / (n * n), 1, kTrials);
  std::vector<std::uint32_t> free;
  while (!remaining.empty()) {
    Chosen best;
    double best_spread = 0;
    for (std::int64_t trial = 0; trial < trials; trial++) {
      for (std::size_t i = remaining.size(); i-- > 1;) std::swap(remaining[i], remaining[random.below(i + 1)]);
      std::vector<bool> sends(problem.senders), receives(problem.receivers);
      Chosen chosen;
      for (const auto t : remaining) {
        const Task& task = tasks[t];
        if (std::any_of(task.receivers.begin(), task.receivers.end(), [&](auto r) { return receives[r]; })) continue;
        free.clear();
        for (const auto s : task.senders)
          if (!sends[s]) free.push_back(s);
        if (free.empty()) continue;
        const auto s = draw(free, load, random);
        sends[s] = true;
        for (const auto r : task.receivers) receives[r] = true;
        chosen.emplace_back(t, s);
      }
      // The variance of the loads, up to a constant factor; receivers count as loads of zero.
      double sum = 0, squares = 0;
      auto loads = load;
      for (const auto& [t, s] : chosen) loads[s] += tasks[t].work;
      for (const auto l : loads) sum += double(l), squares += double(l) * double(l);
      const double spread = squares * double(problem.senders + problem.receivers) - sum * sum;
      if (chosen.size() > best.size() || (chosen.size() == best.size() && spread < best_spread))
        best = std::move(chosen), best_spread = spread;
    }
    for (const auto& [t, s] : best) {
      order.push_back(t), sender[t] = s;
      load[s] += tasks[t].work;
      remaining.erase(std::find(remaining.begin(), remaining.end(), t));
    }
  }
  return {in_order(problem, order, sender)};
}

}  // namespace

void register_greedy(Registry& registry) {
  registry.add({"greedy",
                "The original's randomised greedy: the best of 100 random sets of concurrent tasks, repeatedly.",
                greedy});
}

}  // namespace rehearsal::reshard
