// Solves cells with two slots per GPU by enumerating vectors of copies.
//
// For given copies, sorted, it is optimal to pair the heaviest with the lightest, the second heaviest with the second
// lightest and so on: if a >= b and c >= d are paired as (a, c), (b, d), then (a, d), (b, c) has no larger maximum.
// An expert of weight w needs ceil(w / T) copies to be below T, so few vectors remain if the bound is close.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "balance/search/cell.hpp"

namespace rehearsal::balance::search {
namespace {

class Pairs {
 public:
  Pairs(const Cell& cell, Filling& best, std::int64_t& steps)
      : cell_(cell), best_(best), steps_(steps), order_(cell.experts()), counts_(cell.experts(), 1) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(), [&](auto a, auto b) { return cell_.weights[a] > cell_.weights[b]; });
  }

  bool run() {
    try_from(0, cell_.slots());
    return complete_;
  }

 private:
  // The fewest copies with which an expert stays below the best so far.
  std::uint32_t least(std::uint32_t e) const {
    return std::max(1u, static_cast<std::uint32_t>(std::ceil(cell_.weights[e] / best_.worst * (1 - 1e-12))));
  }
  std::uint32_t least_of_rest(std::size_t from) const {
    std::uint32_t sum = 0;
    for (auto i = from; i < order_.size(); ++i) sum += least(order_[i]);
    return sum;
  }

  // Experts order_[i..] share `left` slots.
  void try_from(std::size_t i, std::uint32_t left) {
    if (!complete_) return;
    if (steps_ <= 0) {
      complete_ = false;
      return;
    }
    const auto e = order_[i];
    if (i + 1 == order_.size()) {
      counts_[e] = left;
      if (left >= least(e)) evaluate();
      return;
    }
    steps_--;
    for (auto c = least(e); c + least_of_rest(i + 1) <= left; ++c) {
      counts_[e] = c;
      try_from(i + 1, left - c);
      if (!complete_) return;
    }
  }

  void evaluate() {
    copies_.clear();
    for (const auto e : order_) copies_.insert(copies_.end(), counts_[e], {cell_.weights[e] / counts_[e], e});
    std::stable_sort(copies_.begin(), copies_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    steps_ -= static_cast<std::int64_t>(copies_.size());
    double worst = 0;
    for (std::size_t i = 0, j = copies_.size() - 1; i < j; ++i, --j)
      worst = std::max(worst, copies_[i].first + copies_[j].first);
    if (worst >= best_.worst) return;
    for (std::size_t i = 0, j = copies_.size() - 1; i < j; ++i, --j)
      best_.expert[2 * i] = copies_[i].second, best_.expert[2 * i + 1] = copies_[j].second;
    best_.worst = worst_load(cell_, best_.expert);
  }

  const Cell& cell_;
  Filling& best_;
  std::int64_t& steps_;
  bool complete_ = true;
  std::vector<std::uint32_t> order_, counts_;
  std::vector<std::pair<double, std::uint32_t>> copies_;
};

}  // namespace

bool solve_pairs(const Cell& cell, Filling& filling, std::int64_t& steps) {
  if (!cell.even() || cell.room.front() != 2 || filling.worst <= 0) return false;
  return Pairs(cell, filling, steps).run();
}

}  // namespace rehearsal::balance::search
