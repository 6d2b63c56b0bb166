// The original's depth-first search with pruning: every order and every sender; a branch is abandoned when its estimate
// exceeds the best plan so far. The estimate is not a lower bound (it adds work to receivers that may be
// idle anyway), so a completed search does not prove its plan optimal. The first plan that it finds uses the lowest
// sender of each task in natural order.
//
// The original stops after one second; this one after a number of estimates, so that the result does not depend on the
// machine.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "reshard/registry.hpp"

namespace rehearsal::reshard {
namespace {

constexpr std::int64_t kSteps = 5'000'000;  // estimated tasks: more than the original manages in its second
constexpr std::size_t kMostTasks = 4096;    // the search recurses once per task

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem),
        used_(problem.tasks.size()),
        sender_(problem.tasks.size()),
        order_(problem.tasks.size()),
        sends_(problem.senders),
        receives_(problem.receivers) {}

  Found run() {
    descend(0, 0);
    return {in_order(problem_, best_order_, best_sender_)};
  }

 private:
  void descend(std::size_t depth, std::int64_t end) {
    const auto& tasks = problem_.tasks;
    if (depth == tasks.size()) {
      if (best_ < 0 || end < best_) best_ = end, best_order_ = order_, best_sender_ = sender_;
      return;
    }
    if (best_ >= 0 && estimate(end) > best_) return;
    for (std::uint32_t t = 0; t < tasks.size(); t++) {
      if (used_[t]) continue;
      used_[t] = true, order_[depth] = t;
      std::vector<std::int64_t> before;
      std::int64_t ready = 0;
      for (const auto r : tasks[t].receivers) before.push_back(receives_[r]), ready = std::max(ready, receives_[r]);
      for (const auto s : tasks[t].senders) {
        const std::int64_t sent = sends_[s], done = std::max(ready, sent) + tasks[t].work;
        sender_[t] = s, sends_[s] = done;
        for (const auto r : tasks[t].receivers) receives_[r] = done;
        descend(depth + 1, std::max(end, done));
        sends_[s] = sent;
        for (std::size_t i = 0; i < before.size(); i++) receives_[tasks[t].receivers[i]] = before[i];
        if (best_ >= 0 && steps_ > kSteps) break;
      }
      used_[t] = false;
      if (best_ >= 0 && steps_ > kSteps) return;
    }
  }

  // Estimates the rest: adds each remaining task to its least loaded sender, on top of the current loads of the NICs.
  std::int64_t estimate(std::int64_t end) {
    guess_sends_ = sends_, guess_receives_ = receives_;
    for (std::size_t t = 0; t < used_.size(); t++) {
      if (used_[t]) continue;
      steps_++;
      const Task& task = problem_.tasks[t];
      const auto least = *std::min_element(task.senders.begin(), task.senders.end(),
                                           [&](auto a, auto b) { return guess_sends_[a] < guess_sends_[b]; });
      end = std::max(end, guess_sends_[least] += task.work);
      for (const auto r : task.receivers) end = std::max(end, guess_receives_[r] += task.work);
    }
    return end;
  }

  const Problem& problem_;
  std::vector<bool> used_;
  std::vector<std::uint32_t> sender_, order_, best_sender_, best_order_;
  std::vector<std::int64_t> sends_, receives_, guess_sends_, guess_receives_;
  std::int64_t best_ = -1, steps_ = 0;
};

}  // namespace

void register_dfs(Registry& registry) {
  registry.add({"dfs", "Depth-first search over orders and senders with the original's pruning, within a step budget.",
                [](const Problem& problem) {
                  if (problem.tasks.size() > kMostTasks)
                    throw UserError(fmt::format("planner dfs takes at most {} tasks, but there are {}; use best",
                                                kMostTasks, problem.tasks.size()));
                  return Search(problem).run();
                }});
}

}  // namespace rehearsal::reshard
