#include "schedule/search/branch_and_bound.hpp"

#include <algorithm>

#include "schedule/search/bound.hpp"
#include "schedule/search/memo.hpp"

namespace rehearsal::schedule::search {
namespace {

class Search {
 public:
  Search(const Model& model, Ticks known, const Effort& effort)
      : model_(model), effort_(effort), state_(model), bound_(model), memo_(model, effort.memory) {
    best_.cost = known;
  }

  Outcome run() {
    const Ticks root = bound_(state_, best_.cost);
    open_ = best_.cost;
    levels_.resize(2 * model_.actions() + 2);  // an action on purpose delayed is a level too
    descend(0, root);
    best_.lower_bound = std::min(open_, best_.cost);
    return std::move(best_);
  }

 private:
  struct Child {
    Candidate candidate;
    Ticks bound;
    bool wait;
  };

  bool stopped() {
    if (!stopped_)
      stopped_ =
          best_.nodes >= effort_.nodes || (best_.nodes % 64 == 0 && effort_.out_of_time && effort_.out_of_time());
    return stopped_;
  }

  // Unexplored branches limit the proven lower bound.
  void leave_open(Ticks bound) { open_ = std::min(open_, bound); }

  void descend(std::size_t depth, Ticks bound) {
    if (bound >= best_.cost) return;
    if (stopped()) return leave_open(bound);
    ++best_.nodes;
    if (path_.size() == model_.actions()) {  // complete: the bound is its cost
      best_.cost = bound;
      best_.moves = path_;
      return;
    }
    if (memo_.seen(state_)) return;
    auto& level = levels_[depth];
    state_.candidates(level.found);
    level.children.clear();
    for (const Candidate& c : level.found) {
      const auto undo = state_.apply(c);
      const Ticks b = bound_(state_, best_.cost);
      state_.revert(undo);
      if (b < best_.cost) level.children.push_back({c, std::max(b, bound), false});
    }
    if (!model_.moving_ahead_is_safe && !level.found.empty() && model_.growth(level.found[0].move) > 0)
      level.children.push_back({level.found[0], bound, true});
    std::stable_sort(level.children.begin(), level.children.end(),
                     [](const Child& a, const Child& b) { return a.bound < b.bound; });
    for (const Child& child : level.children) {
      if (child.bound >= best_.cost) continue;
      if (child.wait) {
        auto& rank = state_.rank[model_.rank[child.candidate.move.stage]];
        const auto before = rank.waiting;
        rank.waiting |= state_.bit(child.candidate.move);
        descend(depth + 1, child.bound);
        rank.waiting = before;
        continue;
      }
      const auto undo = state_.apply(child.candidate);
      path_.push_back(child.candidate.move);
      descend(depth + 1, child.bound);
      path_.pop_back();
      state_.revert(undo);
    }
  }

  struct Level {
    std::vector<Candidate> found;
    std::vector<Child> children;
  };

  const Model& model_;
  const Effort& effort_;
  State state_;
  Bound bound_;
  Memo memo_;
  Outcome best_;
  std::vector<Move> path_;
  std::vector<Level> levels_;
  Ticks open_ = 0;
  bool stopped_ = false;
};

}  // namespace

Outcome branch_and_bound(const Model& model, Ticks known, const Effort& effort) {
  return Search(model, known, effort).run();
}

}  // namespace rehearsal::schedule::search
