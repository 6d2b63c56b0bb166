#include "schedule/search/beam.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "schedule/search/bound.hpp"
#include "schedule/search/memo.hpp"

namespace rehearsal::schedule::search {
namespace {

// How often per state a deliberately delayed forward may be tried.
constexpr std::size_t kMostWaits = 2;

class Beam {
 public:
  Beam(const Model& model, Ticks known, const BeamWidth& width)
      : model_(model), width_(width), bound_(model, horizon(model)), memo_(model, std::size_t(256) << 20) {
    best_.cost = known;
  }

  Outcome run() {
    states_.assign(1, State(model_));
    std::vector<std::uint32_t> trail{kRoot};
    for (std::size_t depth = 0; depth < model_.actions(); ++depth) {
      if (states_.empty() || (width_.out_of_time && width_.out_of_time())) return std::move(best_);
      expand();
      select(trail);
    }
    if (states_.empty()) return std::move(best_);
    best_.cost = last_bound_;
    for (std::uint32_t at = trail[0]; at != kRoot; at = history_[at].parent) best_.moves.push_back(history_[at].move);
    std::reverse(best_.moves.begin(), best_.moves.end());
    return std::move(best_);
  }

 private:
  static constexpr std::uint32_t kRoot = UINT32_MAX;
  struct Step {
    std::uint32_t parent;
    Move move;
  };
  struct Child {
    Ticks bound, pressure;
    std::uint32_t parent;  // position in states_
    Candidate candidate;
    std::array<Move, kMostWaits> waits{};
    std::uint8_t waiting = 0;
  };

  void expand() {
    children_.clear();
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      State& state = states_[i];
      const auto ranks = state.rank;
      Child child{0, 0, i, {}};
      for (;;) {
        state.candidates(found_, true);
        for (const Candidate& c : found_) {
          const auto undo = state.apply(c);
          child.bound = bound_(state, best_.cost);
          ++best_.nodes;
          state.revert(undo);
          if (child.bound >= best_.cost) continue;
          child.pressure = bound_.pressure();
          child.candidate = c;
          children_.push_back(child);
        }
        if (model_.moving_ahead_is_safe || child.waiting == kMostWaits || found_.empty() ||
            model_.growth(found_[0].move) <= 0)
          break;
        child.waits[child.waiting++] = found_[0].move;
        state.rank[model_.rank[found_[0].move.stage]].waiting |= state.bit(found_[0].move);
      }
      state.rank = ranks;
    }
  }

  // Keeps the best children, without those that another one beats in every respect.
  void select(std::vector<std::uint32_t>& trail) {
    std::stable_sort(children_.begin(), children_.end(), [](const Child& a, const Child& b) {
      return std::tie(a.bound, a.pressure) < std::tie(b.bound, b.pressure);
    });
    memo_.clear();
    next_.clear();
    std::vector<std::uint32_t> next_trail;
    for (const Child& child : children_) {
      if (next_.size() == width_.states) break;
      State state = states_[child.parent];
      for (std::size_t w = 0; w < child.waiting; ++w)
        state.rank[model_.rank[child.waits[w].stage]].waiting |= state.bit(child.waits[w]);
      state.apply(child.candidate);
      if (memo_.seen(state)) continue;
      if (next_.empty()) last_bound_ = child.bound;
      next_.push_back(std::move(state));
      history_.push_back({trail[child.parent], child.candidate.move});
      next_trail.push_back(static_cast<std::uint32_t>(history_.size() - 1));
    }
    states_.swap(next_);
    trail = std::move(next_trail);
  }

  const Model& model_;
  const BeamWidth& width_;
  Bound bound_;
  Memo memo_;
  Outcome best_;
  std::vector<State> states_, next_;
  std::vector<Candidate> found_;
  std::vector<Child> children_;
  std::vector<Step> history_;
  Ticks last_bound_ = 0;
};

}  // namespace

std::uint32_t horizon(const Model& model) { return 2 * model.ranks + 8; }

std::uint64_t beam_work(const Model& model, std::uint32_t width) {
  const std::uint64_t seen = std::min(model.microbatches, horizon(model) + model.ranks);
  return model.actions() * width * model.stages * seen * 3;
}

Outcome beam_search(const Model& model, Ticks known, const BeamWidth& width) { return Beam(model, known, width).run(); }

}  // namespace rehearsal::schedule::search
