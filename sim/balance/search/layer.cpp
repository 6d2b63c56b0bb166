#include "balance/search/layer.hpp"

#include <algorithm>
#include <limits>

#include "balance/placement.hpp"

namespace rehearsal::balance::search {
namespace {

// A load this close to a bound counts as equal.
constexpr double kClose = 1 + 1e-9;
// The approximate number of steps per slot to fill a cell for the first time.
constexpr std::int64_t kStepsPerSlot = 4;
// Smallest chunk of effort for one node, and the number of chunks that a layer's effort is divided into.
constexpr std::int64_t kLeastChunk = 20'000, kChunks = 24;
// After this many chunks, a node is expected to close only half of the gap to its bound.
constexpr double kPatience = 2;

std::uint64_t seed_of(const Groups& groups, std::uint32_t round) {
  std::uint64_t seed = 0x5eed0000u + round;
  for (const auto g : groups) seed = seed * 1'000'003 + g + 1;
  return seed;
}

}  // namespace

LayerSearch::LayerSearch(const Shape& shape, const Loads& weights, std::span<const std::int32_t> known)
    : shape_(shape), weights_(weights), nodes_(nodes_of(shape)), known_(known.begin(), known.end()) {
  worst_ = std::numeric_limits<double>::infinity();
  if (!known_.empty()) {
    const auto loads = gpu_loads(shape_, weights_, known_);
    worst_ = *std::max_element(loads.begin(), loads.end());
  }
  // An exact enumeration needs the bound of every set; the cells themselves are created when they are filled.
  partitions_ = partitions_below(worst_, shape_, weights_, nodes_, [&](std::uint32_t kind, const Groups& groups) {
    return cell_bound(cell_of(shape_, weights_, nodes_.kinds[kind], groups));
  });
  finished_ = !known_.empty() && (partitions_.list.empty() || worst_ <= partitions_.bound * kClose);
}

LayerSearch::Node& LayerSearch::node(std::uint32_t kind, const Groups& groups) {
  auto [it, is_new] = cells_.try_emplace({kind, groups});
  if (is_new) {
    it->second.cell = cell_of(shape_, weights_, nodes_.kinds[kind], groups);
    it->second.bound = cell_bound(it->second.cell);
  }
  return it->second;
}

double LayerSearch::value(const Partition& p) {
  double worst = 0;
  for (std::size_t n = 0; n < p.groups.size(); ++n) worst = std::max(worst, node(p, n).filling->worst);
  return worst;
}

// The load that a node may still reach: at first its bound, then with growing effort closer to the best found.
double LayerSearch::promise(const Partition& p) {
  double worst = 0;
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    const auto& own = node(p, n);
    const double used = own.optimal ? 1.0 : own.rounds / (own.rounds + kPatience);
    worst = std::max(worst, own.bound + (own.filling->worst - own.bound) * used);
  }
  return worst;
}

void LayerSearch::take(const Partition& p) {
  const double reached = value(p);
  if (reached >= worst_) return;
  worst_ = reached;
  best_ = static_cast<std::size_t>(&p - partitions_.list.data());
  best_fill_.clear();
  for (std::size_t n = 0; n < p.groups.size(); ++n) best_fill_.push_back(node(p, n).filling->expert);
}

void LayerSearch::open_next(std::int64_t& steps) {
  const auto& p = partitions_.list[opened_++];
  for (std::size_t n = 0; n < p.groups.size(); ++n) {
    auto& own = node(p, n);
    if (own.filling) continue;
    steps -= kStepsPerSlot * own.cell.slots();
    own.filling = two_steps(own.cell);
    // A node below the layer's worst load does not matter.
    if (own.filling->worst >= worst_ || own.filling->worst > p.bound * kClose) descend(own.cell, *own.filling, steps);
  }
  take(p);
}

void LayerSearch::work_on(const Partition& p, std::int64_t& steps, std::int64_t chunk) {
  std::size_t decisive = 0;
  for (std::size_t n = 1; n < p.groups.size(); ++n)
    if (node(p, n).filling->worst > node(p, decisive).filling->worst) decisive = n;
  auto& own = node(p, decisive);
  auto left = std::min(steps, chunk);
  const auto given = left;
  if (own.rounds == 0 && solve_pairs(own.cell, *own.filling, left)) {
    own.optimal = true;
    own.bound = own.filling->worst;
  }
  if (!own.optimal && left > 0)
    anneal(own.cell, *own.filling, std::max(own.bound, p.bound) * kClose, left,
           seed_of(p.groups[decisive], own.rounds));
  own.rounds++;
  own.optimal = own.optimal || own.filling->worst <= own.bound * kClose;
  own.spent += given - left;
  steps -= given - left;
  take(p);
}

std::int64_t LayerSearch::run(std::int64_t steps) {
  const auto chunk = std::max(kLeastChunk, steps / kChunks);
  if (!finished_ && opened_ == 0) open_next(steps);
  while (steps > 0 && !finished_) {
    const auto count = partitions_.list.size();
    if (opened_ < count && partitions_.list[opened_].bound < worst_) open_next(steps);
    std::optional<std::size_t> chosen;
    double least = worst_;
    for (std::size_t i = 0; i < opened_; ++i) {
      if (partitions_.list[i].bound * kClose >= worst_) break;
      const double own = promise(partitions_.list[i]);
      if (own * kClose < least) least = own, chosen = i;
    }
    const bool more = opened_ < count && partitions_.list[opened_].bound * kClose < worst_;
    if (!chosen && more) continue;
    if (!chosen) {  // no open partition can be better
      finished_ = true;
      break;
    }
    work_on(partitions_.list[*chosen], steps, chunk);
    if (worst_ <= partitions_.bound * kClose) finished_ = true;
  }
  return std::max<std::int64_t>(0, steps);
}

double LayerSearch::bound() const {
  if (!partitions_.complete) return std::min(worst_, partitions_.bound);
  // Includes what was proven about nodes since the partitions were listed.
  double least = worst_;
  for (const auto& p : partitions_.list) {
    double own = p.bound;
    for (std::size_t n = 0; n < p.groups.size(); ++n)
      if (const auto it = cells_.find({nodes_.kind_of[n], p.groups[n]}); it != cells_.end())
        own = std::max(own, it->second.bound);
    least = std::min(least, own);
  }
  return least;
}

std::vector<std::int32_t> LayerSearch::slots() const {
  if (!best_) return known_;
  const auto& p = partitions_.list[*best_];
  std::vector<std::int32_t> slots;
  for (std::size_t n = 0; n < p.groups.size(); ++n)
    for (const auto e : best_fill_[n])
      slots.push_back(static_cast<std::int32_t>(p.groups[n][e / shape_.group_size()] * shape_.group_size() +
                                                e % shape_.group_size()));
  return slots;
}

}  // namespace rehearsal::balance::search
