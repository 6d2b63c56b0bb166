#include "balance/search/cell.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

#include "balance/eplb.hpp"
#include "balance/search/state.hpp"

namespace rehearsal::balance::search {

std::uint32_t Cell::slots() const { return std::accumulate(room.begin(), room.end(), 0u); }
bool Cell::even() const { return std::adjacent_find(room.begin(), room.end(), std::not_equal_to<>()) == room.end(); }

double worst_load(const Cell& cell, const std::vector<std::uint32_t>& expert) {
  std::vector<std::uint32_t> counts(cell.experts());
  for (const auto e : expert) counts[e]++;
  double worst = 0;
  std::size_t slot = 0;
  for (const auto room : cell.room) {
    double load = 0;
    for (const auto end = slot + room; slot < end; ++slot) load += cell.weights[expert[slot]] / counts[expert[slot]];
    worst = std::max(worst, load);
  }
  return worst;
}

double cell_bound(const Cell& cell) {
  struct Heavy {
    double share, weight;
    std::uint32_t copies;
    bool operator<(const Heavy& other) const { return share < other.share; }
  };
  double sum = 0;
  std::vector<Heavy> heap;
  heap.reserve(cell.weights.size());
  for (const double w : cell.weights) sum += w, heap.push_back({w, w, 1});
  std::make_heap(heap.begin(), heap.end());
  const double mean = sum / cell.gpus();
  // Once the largest copy is below the mean, further copies do not matter.
  for (auto free = cell.slots() - cell.experts(); free > 0 && heap.front().share > mean; --free) {
    std::pop_heap(heap.begin(), heap.end());
    auto& h = heap.back();
    h.share = h.weight / ++h.copies;
    std::push_heap(heap.begin(), heap.end());
  }
  return std::max(mean, heap.front().share);
}

Filling two_steps(const Cell& cell) {
  const auto slots = cell.slots();
  std::vector<float> weights(cell.weights.begin(), cell.weights.end()), load(slots);
  std::vector<std::uint32_t> expert(slots), rank(slots), counts(cell.experts()), first(cell.gpus());
  std::vector<std::uint64_t> tree;
  for (auto& w : weights) w += 0.0f;
  replicate(weights, expert, rank, counts, tree);
  for (std::uint32_t k = 0; k < slots; ++k) load[k] = weights[expert[k]] / static_cast<float>(counts[expert[k]]);
  Packer packer;
  std::vector<Packer::Seat> seat(slots);
  packer.pack(load, cell.room, seat);
  std::exclusive_scan(cell.room.begin(), cell.room.end(), first.begin(), 0u);
  Filling filling;
  filling.expert.resize(slots);
  for (std::uint32_t k = 0; k < slots; ++k) filling.expert[first[seat[k].pack] + seat[k].rank] = expert[k];
  filling.worst = worst_load(cell, filling.expert);
  return filling;
}

namespace {

// A move that relieves the heaviest GPU.
struct Move {
  double worst;  // the largest load among the GPUs it touches
  bool replaces = false;
  std::uint32_t p = 0, q = 0;  // slots to swap; or slot q, and the expert p that it becomes a copy of
};

class Descent {
 public:
  Descent(const Cell& cell, std::int64_t& steps) : cell_(cell), steps_(steps), state_(cell) {}

  int run(Filling& filling, int moves) {
    state_.fill(filling.expert);
    int made = 0;
    while (made < moves && steps_ > 0 && once()) made++;
    // Incremental sums may end a rounding error above their start.
    const double worst = worst_load(cell_, state_.filling());
    if (worst > filling.worst) return 0;
    filling = {state_.filling(), worst};
    return made;
  }

 private:
  bool once() {
    const auto heavy = state_.heaviest();
    const double load = state_.load(heavy);
    // A gain below the rounding error is no progress.
    best_ = {load * (1 - 1e-12), false, 0, 0};
    bool found = false;
    for (auto p = state_.first(heavy); p < state_.first(heavy + 1); ++p) {
      const double share = state_.share(state_.expert(p));
      for (std::uint32_t q = 0; q < cell_slots(); ++q) {
        if (state_.gpu(q) == heavy) continue;
        const double d = share - state_.share(state_.expert(q));
        if (d <= 0) continue;
        const double worst = std::max(load - d, state_.load(state_.gpu(q)) + d);
        if (worst < best_.worst) best_ = {worst, false, p, q}, found = true;
      }
      steps_ -= 1 + cell_slots() / 8;
    }
    // Another copy of an expert here, replacing any copy that another expert can spare.
    for (auto p = state_.first(heavy); p < state_.first(heavy + 1); ++p)
      for (std::uint32_t q = 0; q < cell_slots(); ++q) found = try_replace(q, state_.expert(p), load) || found;
    // Another expert in place of a copy here that can be spared.
    for (auto q = state_.first(heavy); q < state_.first(heavy + 1); ++q)
      for (std::uint32_t e = 0; e < cell_.experts(); ++e) found = try_replace(q, e, load) || found;
    if (!found) return false;
    if (best_.replaces)
      state_.replace(best_.q, best_.p);
    else
      state_.swap(best_.p, best_.q);
    return true;
  }

  bool try_replace(std::uint32_t q, std::uint32_t by, double load) {
    const auto gone = state_.expert(q);
    if (gone == by || state_.copies(gone) < 2) return false;
    state_.after_replace(q, by, changes_);
    steps_--;
    double worst = 0;
    bool relieves = false;
    for (const auto& c : changes_) {
      worst = std::max(worst, c.load);
      relieves = relieves || (state_.load(c.gpu) == load && c.load < load);
    }
    if (!relieves || worst >= best_.worst) return false;
    best_ = {worst, true, by, q};
    return true;
  }

  std::uint32_t cell_slots() const { return static_cast<std::uint32_t>(state_.filling().size()); }

  const Cell& cell_;
  std::int64_t& steps_;
  State state_;
  Move best_{};
  std::vector<State::Change> changes_;
};

}  // namespace

int descend(const Cell& cell, Filling& filling, std::int64_t& steps, int moves) {
  return Descent(cell, steps).run(filling, moves);
}

}  // namespace rehearsal::balance::search
