// Threshold accepting (Dueck, Scheuer, J. Comput. Phys. 90, 1990) against a target slightly below the best filling so
// far. It minimises the sum of squared excesses over the target, because hardly any move affects the worst
// load. When no GPU exceeds the target, that is the new best, and the target is lowered.
#include <algorithm>
#include <array>
#include <numeric>

#include "balance/search/cell.hpp"
#include "balance/search/state.hpp"
#include "base/random.hpp"

namespace rehearsal::balance::search {
namespace {

// Targets of the rounds, as shares of the distance from best to bound: large steps are quick while
// there is room, small ones find the rest. Tuned on random problems, see sim/design/expert-balance.md.
constexpr std::array kAim{1.0, 0.3, 1.0, 0.05};
constexpr std::array kHeat{0.3, 0.03, 0.003};
constexpr double kDecades = 12;
constexpr std::uint32_t kRound = 4096;  // moves per start; the threshold falls to zero

class Annealer {
 public:
  Annealer(const Cell& cell, Filling& best, double goal, std::int64_t& steps, std::uint64_t seed)
      : cell_(cell), best_(best), goal_(goal), steps_(steps), dice_(seed), state_(cell), place_(cell.gpus()) {}

  void run() {
    for (std::uint32_t round = 0; steps_ > 0 && best_.worst > goal_; ++round) {
      const double aim = kAim[round % kAim.size()];
      set_target(aim);
      // Mostly from the best; sometimes from the end of the previous round.
      if (round % 8 != 7)
        start(best_.expert);
      else
        find_over();
      if (over_.empty() && !take(aim)) return;
      sort_experts();
      const double share = best_.worst * double(cell_.gpus()) / double(best_.expert.size());
      double heat = share * share * kHeat[round % kHeat.size()];
      const auto length = (kRound << std::min(round / 3, 8u)) + 32 * best_.expert.size();
      const std::size_t look = 8 * cell_.gpus();
      const double cooling = 1.0 - kDecades / double(length);
      for (std::size_t i = 0; i < length && steps_ > 0; ++i, heat *= cooling) {
        step(heat);
        if (over_.empty() ? !take(aim) : i % look == 0 && !look_for_best()) return;
      }
    }
  }

 private:
  void set_target(double aim) { target_ = best_.worst - std::max((best_.worst - goal_) * aim, best_.worst * 1e-9); }

  double excess(double load) const { return load > target_ ? (load - target_) * (load - target_) : 0.0; }

  void start(const std::vector<std::uint32_t>& filling) {
    state_.fill(filling);
    find_over();
  }

  void find_over() {
    over_.clear();
    for (std::uint32_t g = 0; g < cell_.gpus(); ++g) {
      place_[g] = kNotOver;
      note(g);
    }
  }

  void note(std::uint32_t g) {
    const bool over = state_.load(g) > target_;
    if (over == (place_[g] != kNotOver)) return;
    if (over) {
      place_[g] = static_cast<std::uint32_t>(over_.size());
      over_.push_back(g);
    } else {
      place_[over_.back()] = place_[g];
      over_[place_[g]] = over_.back();
      over_.pop_back();
      place_[g] = kNotOver;
    }
  }

  // If no GPU exceeds the target: a new best. False when the goal is met.
  bool take(double aim) {
    const double worst = worst_load(cell_, state_.filling());
    if (worst < best_.worst) best_ = {state_.filling(), worst};
    if (best_.worst <= goal_) return false;
    set_target(aim);
    start(best_.expert);
    return true;
  }

  // A descent to the target may pass a new best. False when the goal is met.
  bool look_for_best() {
    if (state_.load(state_.heaviest()) >= best_.worst) return true;
    const double worst = worst_load(cell_, state_.filling());
    if (worst < best_.worst) best_ = {state_.filling(), worst};
    return best_.worst > goal_;
  }

  std::uint32_t slot_of(std::uint32_t gpu) { return state_.first(gpu) + dice_.below32(cell_.room[gpu]); }

  // A copy of similar share: exchanging copies of very different shares nearly always makes things worse.
  std::uint32_t partner(std::uint32_t e) {
    const auto n = cell_.experts();
    const double u = dice_.fraction();
    const auto away = 1 + static_cast<std::uint32_t>(u * u * u * (n - 1));
    const auto at = rank_[e];
    const bool up = dice_.below32(2) != 0;
    const auto other = up ? (at + away < n ? at + away
                             : at >= away  ? at - away
                                           : at)
                          : (at >= away      ? at - away
                             : at + away < n ? at + away
                                             : at);
    const auto by = order_[other];
    const auto copies = state_.copies(by);
    return state_.slot_of(by, copies == 1 ? 0 : dice_.below32(copies));
  }

  // Sorts experts by share. Shares change with copies, so the order is refreshed every round and good enough in
  // between.
  void sort_experts() {
    order_.resize(cell_.experts()), rank_.resize(cell_.experts());
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](auto a, auto b) {
      return state_.share(a) != state_.share(b) ? state_.share(a) < state_.share(b) : a < b;
    });
    for (std::uint32_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = i;
  }

  // Tries one move that relieves a GPU above the target.
  void step(double threshold) {
    const auto slots = static_cast<std::uint32_t>(best_.expert.size());
    steps_--;
    const auto p = dice_.below32(2) ? slot_of(over_[dice_.below32(static_cast<std::uint32_t>(over_.size()))])
                                    : dice_.below32(slots);
    const auto gpu = state_.gpu(p);
    const auto kind = dice_.below32(8);
    if (kind < 5) {
      const auto q = partner(state_.expert(p));
      if (state_.gpu(q) == gpu || state_.expert(p) == state_.expert(q)) return;
      state_.after_swap(p, q, changes_);
      if (accept(threshold)) {
        state_.swap(p, q);
        for (const auto& c : changes_) note(c.gpu);
      }
      return;
    }
    std::uint32_t q = p, by = state_.expert(dice_.below32(slots));
    if (kind < 7) {
      // Adds a copy of this expert in place of the most dispensable of some other copies.
      by = state_.expert(p);
      double least = -1;
      for (int draw = 0; draw < 3; ++draw) {
        const auto s = dice_.below32(slots);
        const auto e = state_.expert(s);
        if (e == by || state_.copies(e) < 2) continue;
        const double left = cell_.weights[e] / (state_.copies(e) - 1);
        if (least < 0 || left < least) least = left, q = s;
      }
      if (least < 0) return;
    }
    const auto gone = state_.expert(q);
    if (gone == by || state_.copies(gone) < 2) return;
    state_.after_replace(q, by, changes_);
    steps_ -= static_cast<std::int64_t>(changes_.size()) / 4;
    if (accept(threshold)) {
      state_.replace(q, by);
      for (const auto& c : changes_) note(c.gpu);
    }
  }

  bool accept(double threshold) {
    double change = 0;
    for (const auto& c : changes_) change += excess(c.load) - excess(state_.load(c.gpu));
    if (change <= 0) return true;
    // A random threshold with a tail, so that occasionally a large step uphill is accepted; no exponential, whose last
    // bit differs between libraries.
    const double u = dice_.fraction();
    return change <= threshold * (1.0 / (u + 0.05) - 0.95) * 0.1;
  }

  static constexpr std::uint32_t kNotOver = UINT32_MAX;

  const Cell& cell_;
  Filling& best_;
  const double goal_;
  std::int64_t& steps_;
  Random dice_;
  State state_;
  double target_ = 0;
  std::vector<std::uint32_t> over_, place_, order_, rank_;
  std::vector<State::Change> changes_;
};

}  // namespace

void anneal(const Cell& cell, Filling& filling, double goal, std::int64_t& steps, std::uint64_t seed) {
  if (cell.gpus() < 2 || filling.worst <= goal) return;
  Annealer(cell, filling, goal, steps, seed).run();
}

}  // namespace rehearsal::balance::search
