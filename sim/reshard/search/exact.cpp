// Branch and bound over schedules in order of start times.
//
// Every schedule can be shifted left until each task starts at 0 or at an end on one of its NICs, and then listed by
// start time. So it suffices to append tasks that start no earlier than the last one, as soon as
// their NICs are free. A task that would start at or after the earliest possible end of
// another one is postponed: the other one could precede it without moving anything.
//
// Tasks with the same senders, receivers and work are one kind, of which only the count matters. Among senders that the
// same kinds can use and that are free at the same time, only one is tried. A state (remaining tasks, and when
// NICs become free relative to now) that was visited before is skipped.
#include "reshard/search/exact.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <unordered_set>

#include "reshard/bounds.hpp"

namespace rehearsal::reshard {
namespace {

constexpr std::size_t kMostTasks = 200, kMostKinds = 64, kMostSets = 256, kMostMemory = 64 << 20;

struct Kind {
  std::vector<std::uint32_t> senders, receivers, tasks;
  std::int64_t work = 0;
  std::uint32_t left = 0;
};

struct SenderSet {
  std::vector<std::uint32_t> members;
  std::int64_t left = 0;  // work that only members of this set can send
};

class Search {
 public:
  Search(const Problem& problem, std::int64_t upper, std::int64_t lower, std::int64_t nodes)
      : upper_(upper),
        lower_(lower),
        nodes_(nodes),
        sends_(problem.senders),
        receives_(problem.receivers),
        left_of_receiver_(problem.receivers) {
    std::map<std::tuple<std::vector<std::uint32_t>, std::vector<std::uint32_t>, std::int64_t>, std::size_t> seen;
    for (std::uint32_t t = 0; t < problem.tasks.size(); t++) {
      const Task& task = problem.tasks[t];
      const auto [at, fresh] = seen.try_emplace({task.senders, task.receivers, task.work}, kinds_.size());
      if (fresh) kinds_.push_back({task.senders, task.receivers, {}, task.work, 0});
      kinds_[at->second].tasks.push_back(t);
      kinds_[at->second].left++;
      for (const auto r : task.receivers) left_of_receiver_[r] += task.work;
    }
    // Long kinds first: they restrict the search most.
    std::stable_sort(kinds_.begin(), kinds_.end(), [](const Kind& a, const Kind& b) { return a.work > b.work; });
    for (const auto& mask : sender_sets(problem)) {
      SenderSet set;
      for (std::uint32_t s = 0; s < problem.senders; s++)
        if (mask[s / 64] >> (s % 64) & 1) set.members.push_back(s);
      sets_.push_back(std::move(set));
    }
    sets_of_kind_.resize(kinds_.size());
    for (std::size_t k = 0; k < kinds_.size(); k++)
      for (std::size_t i = 0; i < sets_.size(); i++)
        if (std::includes(sets_[i].members.begin(), sets_[i].members.end(), kinds_[k].senders.begin(),
                          kinds_[k].senders.end())) {
          sets_of_kind_[k].push_back(i);
          sets_[i].left += kinds_[k].work * kinds_[k].left;
        }
    twin_.resize(problem.senders);
    std::map<std::vector<std::size_t>, std::uint32_t> users;
    for (std::uint32_t s = 0; s < problem.senders; s++) {
      std::vector<std::size_t> of;
      for (std::size_t k = 0; k < kinds_.size(); k++)
        if (std::binary_search(kinds_[k].senders.begin(), kinds_[k].senders.end(), s)) of.push_back(k);
      twin_[s] = users.try_emplace(of, s).first->second;
    }
    remaining_ = problem.tasks.size();
  }

  bool fits() const { return remaining_ <= kMostTasks && kinds_.size() <= kMostKinds && sets_.size() <= kMostSets; }

  ExactResult run() {
    ExactResult result;
    descend(0, 0);
    result.finished = nodes_ > 0;
    if (!best_.empty()) result.schedule = best_;
    return result;
  }

 private:
  struct Option {
    std::int64_t start;
    std::size_t kind;
    std::uint32_t sender;
  };

  std::int64_t bound(std::int64_t now) const {
    std::int64_t bound = 0;
    for (std::size_t r = 0; r < receives_.size(); r++)
      if (left_of_receiver_[r]) bound = std::max(bound, std::max(receives_[r], now) + left_of_receiver_[r]);
    for (const auto& set : sets_) {
      if (set.left == 0) continue;
      std::int64_t sum = set.left;
      for (const auto s : set.members) sum += std::max(sends_[s], now);
      const auto size = std::int64_t(set.members.size());
      bound = std::max(bound, (sum + size - 1) / size);
    }
    return bound;
  }

  // Whether this state was visited: remaining tasks, and when NICs become free, relative to now.
  bool met_before(std::int64_t now) {
    if (memory_ > kMostMemory) return false;
    key_.clear();
    for (const auto& kind : kinds_) key_.push_back(static_cast<char>(kind.left));
    const auto put = [&](std::int64_t at) {
      at = std::max(at, now);
      for (int byte = 0; byte < 8; byte++) key_.push_back(static_cast<char>(at >> (8 * byte)));
    };
    for (const auto at : sends_) put(at);
    for (const auto at : receives_) put(at);
    if (!met_.insert(key_).second) return true;
    memory_ += key_.size() + 64;
    return false;
  }

  void descend(std::int64_t now, std::int64_t end) {
    if (--nodes_ <= 0) return;
    if (remaining_ == 0) {
      if (end >= upper_) return;
      upper_ = end;
      best_ = path_;
      return;
    }
    if (std::max(end, bound(now)) >= upper_ || met_before(now)) return;

    std::vector<Option> options;
    std::int64_t earliest_end = INT64_MAX;
    for (std::size_t k = 0; k < kinds_.size(); k++) {
      const Kind& kind = kinds_[k];
      if (kind.left == 0) continue;
      std::int64_t ready = 0;
      for (const auto r : kind.receivers) ready = std::max(ready, receives_[r]);
      for (std::size_t i = 0; i < kind.senders.size(); i++) {
        const auto s = kind.senders[i];
        bool twin = false;
        for (std::size_t j = 0; j < i && !twin; j++)
          twin =
              twin_[kind.senders[j]] == twin_[s] && std::max(sends_[kind.senders[j]], now) == std::max(sends_[s], now);
        if (twin) continue;
        const std::int64_t start = std::max(ready, sends_[s]);
        earliest_end = std::min(earliest_end, std::max(start, now) + kind.work);
        if (start >= now) options.push_back({start, k, s});
      }
    }
    std::erase_if(options, [&](const Option& o) { return o.start >= earliest_end; });
    std::stable_sort(options.begin(), options.end(),
                     [](const Option& a, const Option& b) { return a.start < b.start; });
    for (const auto& o : options) {
      if (upper_ <= lower_ || nodes_ <= 0) return;
      place(o, end);
    }
  }

  void place(const Option& o, std::int64_t end) {
    Kind& kind = kinds_[o.kind];
    const std::int64_t done = o.start + kind.work, sent = sends_[o.sender];
    std::vector<std::int64_t> received;
    for (const auto r : kind.receivers) {
      received.push_back(receives_[r]);
      receives_[r] = done;
      left_of_receiver_[r] -= kind.work;
    }
    sends_[o.sender] = done;
    for (const auto i : sets_of_kind_[o.kind]) sets_[i].left -= kind.work;
    kind.left--, remaining_--;
    path_.push_back({kind.tasks[kind.left], o.sender, o.start, done});
    descend(o.start, std::max(end, done));
    path_.pop_back();
    kind.left++, remaining_++;
    for (const auto i : sets_of_kind_[o.kind]) sets_[i].left += kind.work;
    sends_[o.sender] = sent;
    for (std::size_t i = 0; i < received.size(); i++) {
      receives_[kind.receivers[i]] = received[i];
      left_of_receiver_[kind.receivers[i]] += kind.work;
    }
  }

  std::int64_t upper_, lower_, nodes_;
  std::vector<std::int64_t> sends_, receives_, left_of_receiver_;
  std::vector<Kind> kinds_;
  std::vector<SenderSet> sets_;
  std::vector<std::vector<std::size_t>> sets_of_kind_;
  std::vector<std::uint32_t> twin_;  // for each sender, the first one that the same kinds can use
  std::size_t remaining_ = 0, memory_ = 0;
  std::vector<Sending> path_, best_;
  std::string key_;
  std::unordered_set<std::string> met_;
};

}  // namespace

ExactResult exact_search(const Problem& problem, std::int64_t upper, std::int64_t lower, std::int64_t nodes) {
  Search search(problem, upper, lower, nodes);
  if (!search.fits()) return {};
  auto result = search.run();
  if (result.schedule)
    std::sort(result.schedule->begin(), result.schedule->end(),
              [](const Sending& a, const Sending& b) { return a.task < b.task; });
  return result;
}

}  // namespace rehearsal::reshard
