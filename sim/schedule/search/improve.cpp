#include "schedule/search/improve.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace rehearsal::schedule::search {
namespace {

class Annealer {
 public:
  Annealer(const Model& model, const Programs& start, const Annealing& annealing)
      : model_(model),
        annealing_(annealing),
        dice_(annealing.seed),
        rank_(model.ranks),
        stage_(model.stages),
        forward_end_(std::size_t(model.stages) * model.microbatches),
        input_end_(forward_end_.size()),
        count_(model.stages) {
    for (std::uint32_t r = 0; r < model.ranks; ++r)
      for (const Action& a : start[r])
        rank_[r].program.push_back({a.stage, a.op == Op::forward          ? Kind::forward
                                             : a.op == Op::input_gradient ? Kind::input
                                                                          : Kind::weight});
  }

  Outcome run(Ticks known) {
    Outcome outcome;
    outcome.cost = known;
    Value now;
    if (!evaluate(now)) return outcome;
    if (now.cost < known) keep(outcome, now.cost);
    const double unit = double(now.cost) / double(3 * model_.microbatches + model_.ranks);  // an action, about
    for (std::uint64_t step = 0; step < annealing_.steps && outcome.cost > annealing_.enough; ++step) {
      if (step % 256 == 0 && annealing_.out_of_time && annealing_.out_of_time()) break;
      const double heat = unit * 0.5 * std::pow(0.002, double(step) / double(annealing_.steps));
      std::uint32_t r, from, to;
      if (!propose(r, from, to)) continue;
      move(r, from, to);
      ++outcome.nodes;
      Value next;
      if (evaluate(next) && (next.energy <= now.energy || chance() < std::exp((now.energy - next.energy) / heat))) {
        now = next;
        if (now.cost < outcome.cost) keep(outcome, now.cost);
      } else {
        move(r, to, from);
      }
    }
    return outcome;
  }

 private:
  struct Value {
    Ticks cost = 0;
    double energy = 0;
  };
  struct Rank {
    std::vector<Move> program;
    std::size_t next = 0;
    Ticks free = 0, first = -1;
    bool queued = false;
  };

  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(dice_() % n); }
  double chance() { return double(dice_() >> 11) * 0x1p-53; }

  void move(std::uint32_t r, std::uint32_t from, std::uint32_t to) {
    auto at = rank_[r].program.begin();
    if (from < to)
      std::rotate(at + from, at + from + 1, at + to + 1);
    else
      std::rotate(at + to, at + from, at + from + 1);
  }

  // A move that changes the order and keeps it legal on its rank and within the limit.
  bool propose(std::uint32_t& r, std::uint32_t& from, std::uint32_t& to) {
    r = below(model_.ranks);
    const auto& program = rank_[r].program;
    from = below(program.size());
    const std::uint32_t reach = 1 + below(below(2) ? 2 : 4 * model_.stages_of[r].size());
    to = from;
    const Move moved = program[from];
    if (below(2)) {
      while (to > 0 && from - to < reach && program[to - 1] != moved) --to;
    } else {
      while (to + 1 < program.size() && to - from < reach && program[to + 1] != moved) ++to;
    }
    if (to == from) return false;
    move(r, from, to);
    const bool good = legal(r);
    move(r, to, from);
    return good;
  }

  bool legal(std::uint32_t r) {
    for (std::uint32_t s : model_.stages_of[r]) count_[s].done = {};
    double memory = 0;
    for (const Move& m : rank_[r].program) {
      auto& done = count_[m.stage].done;
      const auto kind = static_cast<std::size_t>(m.kind);
      if (kind > 0 && done[kind] >= done[kind - 1]) return false;
      ++done[kind];
      memory += model_.growth(m);
      if (memory > model_.limit) return false;
    }
    return true;
  }

  // Runs all programs; false if they deadlock.
  bool evaluate(Value& value) {
    for (auto& stage : stage_) stage.done = {};
    queue_.clear();
    for (std::uint32_t r = 0; r < model_.ranks; ++r) {
      rank_[r].next = 0, rank_[r].free = 0, rank_[r].first = -1, rank_[r].queued = true;
      queue_.push_back(model_.ranks - 1 - r);
    }
    sequence_.clear();
    while (!queue_.empty()) {
      const std::uint32_t r = queue_.back();
      queue_.pop_back();
      rank_[r].queued = false;
      advance(r);
    }
    if (sequence_.size() != model_.actions()) return false;
    double sum = 0;
    value.cost = 0;
    for (const Rank& rank : rank_) {
      const Ticks span = rank.free - rank.first;
      value.cost = std::max(value.cost, span);
      sum += double(span);
    }
    // Equal costs are ranked by the other ranks' times.
    value.energy = double(value.cost) + 0.5 * sum / double(model_.ranks);
    return true;
  }

  void wake(std::uint32_t r) {
    if (rank_[r].queued) return;
    rank_[r].queued = true;
    queue_.push_back(r);
  }

  void advance(std::uint32_t r) {
    Rank& rank = rank_[r];
    for (; rank.next < rank.program.size(); ++rank.next) {
      const Move m = rank.program[rank.next];
      const std::uint32_t s = m.stage;
      std::uint32_t& k = stage_[s].done[static_cast<std::size_t>(m.kind)];
      Ticks start = rank.free;
      if (m.kind == Kind::forward && s > 0) {
        if (stage_[s - 1].done[0] <= k) return;
        start = std::max(start, forward_end_[model_.at(s - 1, k)] + model_.hop[s - 1]);
      } else if (m.kind == Kind::input) {
        if (stage_[s].done[0] <= k) return;
        if (s + 1 < model_.stages) {
          if (stage_[s + 1].done[1] <= k) return;
          start = std::max(start, input_end_[model_.at(s + 1, k)] + model_.hop[s]);
        }
      }
      if (rank.first < 0) rank.first = start;
      rank.free = start + model_.time(m);
      if (m.kind == Kind::forward) {
        forward_end_[model_.at(s, k)] = rank.free;
        if (s + 1 < model_.stages && model_.rank[s + 1] != r) wake(model_.rank[s + 1]);
      } else if (m.kind == Kind::input) {
        input_end_[model_.at(s, k)] = rank.free;
        if (s > 0 && model_.rank[s - 1] != r) wake(model_.rank[s - 1]);
      }
      ++k;
      sequence_.push_back(m);
    }
  }

  void keep(Outcome& outcome, Ticks cost) {
    outcome.cost = cost;
    outcome.moves = sequence_;
  }

  const Model& model_;
  const Annealing& annealing_;
  std::mt19937_64 dice_;
  std::vector<Rank> rank_;
  std::vector<State::Stage> stage_;
  std::vector<Ticks> forward_end_, input_end_;
  std::vector<State::Stage> count_;
  std::vector<std::uint32_t> queue_;
  std::vector<Move> sequence_;
};

}  // namespace

Outcome anneal(const Model& model, const Programs& start, Ticks known, const Annealing& annealing) {
  return Annealer(model, start, annealing).run(known);
}

}  // namespace rehearsal::schedule::search
