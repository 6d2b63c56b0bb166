#include "reshard/bounds.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

namespace rehearsal::reshard {
namespace {

using Mask = std::vector<std::uint64_t>;

constexpr std::uint32_t kEverySubset = 10;  // up to this many senders, every set is considered
constexpr std::size_t kMostForUnions = 64;  // up to this many distinct sets, unions of two are considered
constexpr std::size_t kMostForClique = 64;  // tasks: rows of the conflict matrix fit one word
constexpr std::int64_t kCliqueNodes = 20'000;

Mask mask_of(const std::vector<std::uint32_t>& members, std::uint32_t universe) {
  Mask mask((universe + 63) / 64);
  for (const auto m : members) mask[m / 64] |= std::uint64_t{1} << (m % 64);
  return mask;
}
bool within(const Mask& inner, const Mask& outer) {
  for (std::size_t w = 0; w < inner.size(); w++)
    if (inner[w] & ~outer[w]) return false;
  return true;
}
std::int64_t size_of(const Mask& mask) {
  std::int64_t size = 0;
  for (const auto word : mask) size += std::popcount(word);
  return size;
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The heaviest set of tasks that pairwise share a receiver or their only sender, by branch and bound within a node
// budget; any set found is a valid bound.
class Clique {
 public:
  explicit Clique(const Problem& problem) {
    const auto& tasks = problem.tasks;
    order_.resize(tasks.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](auto a, auto b) { return tasks[a].work > tasks[b].work; });
    conflicts_.assign(tasks.size(), 0);
    for (std::size_t i = 0; i < tasks.size(); i++) {
      const Task& a = tasks[order_[i]];
      weight_.push_back(a.work);
      for (std::size_t j = 0; j < tasks.size(); j++) {
        if (i == j) continue;
        const Task& b = tasks[order_[j]];
        const bool only_sender = a.senders.size() == 1 && a.senders == b.senders;
        const bool receiver = std::any_of(a.receivers.begin(), a.receivers.end(), [&](auto r) {
          return std::binary_search(b.receivers.begin(), b.receivers.end(), r);
        });
        if (only_sender || receiver) conflicts_[i] |= std::uint64_t{1} << j;
      }
    }
  }

  std::int64_t heaviest() {
    const auto n = weight_.size();
    if (n) extend(n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1, 0);
    return best_;
  }

 private:
  void extend(std::uint64_t candidates, std::int64_t weight) {
    best_ = std::max(best_, weight);
    std::int64_t rest = 0;
    for (auto c = candidates; c; c &= c - 1) rest += weight_[std::size_t(std::countr_zero(c))];
    while (candidates) {
      if (weight + rest <= best_ || ++nodes_ > kCliqueNodes) return;
      const auto i = std::size_t(std::countr_zero(candidates));
      extend(candidates & conflicts_[i], weight + weight_[i]);
      candidates &= candidates - 1;
      rest -= weight_[i];
    }
  }

  std::vector<std::uint32_t> order_;
  std::vector<std::uint64_t> conflicts_;
  std::vector<std::int64_t> weight_;
  std::int64_t best_ = 0, nodes_ = 0;
};

}  // namespace

std::vector<std::vector<std::uint64_t>> sender_sets(const Problem& problem) {
  std::set<Mask> sets;
  if (problem.senders <= kEverySubset) {
    for (std::uint64_t m = 1; m < (std::uint64_t{1} << problem.senders); m++) sets.insert({m});
  } else {
    for (const auto& task : problem.tasks) sets.insert(mask_of(task.senders, problem.senders));
    if (sets.size() <= kMostForUnions) {
      const std::vector<Mask> single(sets.begin(), sets.end());
      for (const auto& a : single)
        for (const auto& b : single) {
          Mask both = a;
          for (std::size_t w = 0; w < both.size(); w++) both[w] |= b[w];
          sets.insert(std::move(both));
        }
    }
    std::vector<std::uint32_t> all(problem.senders);
    std::iota(all.begin(), all.end(), 0);
    sets.insert(mask_of(all, problem.senders));
  }
  return {sets.begin(), sets.end()};
}

std::int64_t Bounds::best() const { return std::max({receiver, sender, task, clique, pigeonhole}); }

Bounds bounds(const Problem& problem, bool exact_effort) {
  Bounds b;
  std::vector<std::int64_t> receives(problem.receivers);
  for (const auto& task : problem.tasks) {
    b.task = std::max(b.task, task.work);
    for (const auto r : task.receivers) b.receiver = std::max(b.receiver, receives[r] += task.work);
  }
  // Tasks with the same senders are grouped: total work, and sizes.
  std::vector<std::pair<Mask, std::vector<std::int64_t>>> groups;
  {
    std::vector<std::pair<Mask, std::int64_t>> each;
    for (const auto& task : problem.tasks) each.emplace_back(mask_of(task.senders, problem.senders), task.work);
    std::sort(each.begin(), each.end());
    for (const auto& [mask, work] : each) {
      if (groups.empty() || groups.back().first != mask) groups.push_back({mask, {}});
      groups.back().second.push_back(work);
    }
  }
  std::vector<std::int64_t> total(groups.size());
  for (std::size_t g = 0; g < groups.size(); g++)
    total[g] = std::accumulate(groups[g].second.begin(), groups[g].second.end(), std::int64_t{0});
  std::vector<std::int64_t> works;
  for (const auto& set : sender_sets(problem)) {
    const std::int64_t size = size_of(set);
    std::int64_t sum = 0;
    works.clear();
    for (std::size_t g = 0; g < groups.size(); g++) {
      if (!within(groups[g].first, set)) continue;
      sum += total[g];
      if (exact_effort) works.insert(works.end(), groups[g].second.begin(), groups[g].second.end());
    }
    b.sender = std::max(b.sender, ceil_div(sum, size));
    // Only for whole tasks: part of a task may come from another sender.
    if (!exact_effort || problem.split || works.empty()) continue;
    const auto share = ceil_div(std::int64_t(works.size()), size);
    std::nth_element(works.begin(), works.begin() + (share - 1), works.end());
    b.pigeonhole = std::max(b.pigeonhole, std::accumulate(works.begin(), works.begin() + share, std::int64_t{0}));
  }
  if (exact_effort && problem.tasks.size() <= kMostForClique) b.clique = Clique(problem).heaviest();
  return b;
}

std::int64_t lower_bound(const Problem& problem) { return bounds(problem).best(); }

}  // namespace rehearsal::reshard
