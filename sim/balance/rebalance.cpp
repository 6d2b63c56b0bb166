#include "balance/rebalance.hpp"

#include <algorithm>

#include "balance/assignment.hpp"
#include "balance/search/cell.hpp"
#include "balance/search/partition.hpp"

namespace rehearsal::balance {
namespace {

using Slots = std::span<const std::int32_t>;

// GPUs or nodes of different size are never exchanged.
constexpr std::int64_t kNever = -1'000'000'000;

// In a hierarchical placement all nodes have the same number of GPUs.
std::uint32_t node_of(const Shape& shape, std::uint32_t gpu) { return gpu / (shape.gpus / shape.nodes); }

// The number of replicas on GPU `now` in `after` that are on GPU `then` in `before`; `held` is scratch, all zero.
std::int64_t overlap(const Shape& shape, Slots before, std::uint32_t then, Slots after, std::uint32_t now,
                     std::vector<std::uint32_t>& held) {
  if (shape.slots(then) != shape.slots(now)) return kNever;
  std::int64_t same = 0;
  for (auto s = shape.first_slot(then); s < shape.first_slot(then + 1); ++s) held[before[s]]++;
  for (auto s = shape.first_slot(now); s < shape.first_slot(now + 1); ++s)
    if (held[after[s]] > 0) held[after[s]]--, same++;
  for (auto s = shape.first_slot(then); s < shape.first_slot(then + 1); ++s) held[before[s]] = 0;
  return same;
}

struct Match {
  std::vector<std::uint32_t> place;
  std::int64_t same = 0;
};

// Matches the GPUs of node `now` to the GPUs of node `then`.
Match match_gpus(const Shape& shape, Slots before, std::uint32_t then, Slots after, std::uint32_t now,
                 std::vector<std::uint32_t>& held) {
  const auto first_then = shape.first_gpu(then), first_now = shape.first_gpu(now);
  const auto n = shape.first_gpu(now + 1) - first_now;
  std::vector<std::int64_t> gain(std::size_t(n) * n);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j < n; ++j)
      gain[std::size_t(i) * n + j] = overlap(shape, before, first_then + j, after, first_now + i, held);
  Match match{assign(gain, n), 0};
  for (std::uint32_t i = 0; i < n; ++i) match.same += gain[std::size_t(i) * n + match.place[i]];
  return match;
}

// Reorders the experts of one GPU so that those that were already there keep their slots.
void keep_slots(const Shape& shape, std::uint32_t gpu, Slots before, std::vector<std::int32_t>& slots) {
  const auto first = shape.first_slot(gpu), last = shape.first_slot(gpu + 1);
  std::vector<std::int32_t> arriving(slots.begin() + first, slots.begin() + last);
  std::vector<std::uint32_t> open;
  for (auto s = first; s < last; ++s) {
    const auto it = std::find(arriving.begin(), arriving.end(), before[s]);
    if (it == arriving.end()) {
      open.push_back(s);
    } else {
      slots[s] = *it;
      arriving.erase(it);
    }
  }
  for (std::size_t i = 0; i < open.size(); ++i) slots[open[i]] = arriving[i];
}

double worst_of(const Loads& loads) { return *std::max_element(loads.begin(), loads.end()); }

}  // namespace

std::vector<std::int32_t> relabelled(const Shape& shape, Slots before, Slots after) {
  const auto nodes = search::nodes_of(shape);
  std::vector<std::uint32_t> held(shape.experts);
  std::vector<Match> matches;
  std::vector<std::int64_t> gain;
  for (std::uint32_t now = 0; now < shape.nodes; ++now)
    for (std::uint32_t then = 0; then < shape.nodes; ++then) {
      matches.push_back(nodes.kind_of[now] == nodes.kind_of[then] ? match_gpus(shape, before, then, after, now, held)
                                                                  : Match{{}, kNever});
      gain.push_back(matches.back().same);
    }
  const auto place = assign(gain, shape.nodes);
  std::vector<std::int32_t> slots(after.size());
  for (std::uint32_t now = 0; now < shape.nodes; ++now) {
    const auto& match = matches[std::size_t(now) * shape.nodes + place[now]];
    for (std::uint32_t i = 0; i < match.place.size(); ++i) {
      const auto from = shape.first_gpu(now) + i, to = shape.first_gpu(place[now]) + match.place[i];
      std::copy(after.begin() + shape.first_slot(from), after.begin() + shape.first_slot(from + 1),
                slots.begin() + shape.first_slot(to));
    }
  }
  for (std::uint32_t g = 0; g < shape.gpus; ++g) keep_slots(shape, g, before, slots);
  return slots;
}

std::vector<std::int32_t> with_moves_undone(const Shape& shape, const Loads& weights, double limit, Slots before,
                                            Slots after) {
  std::vector<std::int32_t> slots(after.begin(), after.end());
  std::vector<std::uint32_t> counts(shape.experts), gpu(slots.size());
  for (const auto e : slots) counts[e]++;
  for (std::uint32_t g = 0; g < shape.gpus; ++g)
    for (auto s = shape.first_slot(g); s < shape.first_slot(g + 1); ++s) gpu[s] = g;
  Loads loads = gpu_loads(shape, weights, slots);
  const auto share = [&](std::uint32_t s) { return weights[slots[s]] / counts[slots[s]]; };
  // Slots with their old content are settled (replicas that stay keep their slot). A replica that arrived at p returns
  // to its origin, or the original content of p comes back: either way p is exchanged with another slot q that changed,
  // after which one of the two has its old replica again.
  for (bool again = true; again;) {
    again = false;
    for (std::uint32_t p = 0; p < slots.size(); ++p) {
      if (slots[p] == before[p]) continue;
      for (std::uint32_t q = 0; q < slots.size(); ++q) {
        if (slots[q] != before[p] || slots[q] == before[q] || gpu[p] == gpu[q]) continue;
        if (node_of(shape, gpu[p]) != node_of(shape, gpu[q])) continue;
        const double d = share(p) - share(q);
        if (loads[gpu[p]] - d > limit || loads[gpu[q]] + d > limit) continue;
        loads[gpu[p]] -= d, loads[gpu[q]] += d;
        std::swap(slots[p], slots[q]);
        keep_slots(shape, gpu[q], before, slots);
        again = true;
        break;
      }
    }
  }
  // Incremental loads carry rounding errors, so the result is checked with fresh sums.
  return worst_of(gpu_loads(shape, weights, slots)) <= limit ? slots
                                                             : std::vector<std::int32_t>(after.begin(), after.end());
}

namespace {

// The node cells of the current placement, if it keeps groups within nodes; within a cell, experts are numbered by
// position in the list of the node's groups.
class Downhill {
 public:
  Downhill(const Shape& shape, const Loads& weights, Slots before) : shape_(shape), nodes_(search::nodes_of(shape)) {
    const auto size = shape.group_size();
    for (std::uint32_t n = 0; n < shape.nodes; ++n) {
      const auto first = shape.first_slot(shape.first_gpu(n)), last = shape.first_slot(shape.first_gpu(n + 1));
      search::Groups groups;
      for (auto s = first; s < last; ++s) groups.push_back(before[s] / size);
      std::sort(groups.begin(), groups.end());
      groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
      const auto& kind = nodes_.kinds[nodes_.kind_of[n]];
      if (groups.size() != kind.groups) return;
      search::Filling filling;
      for (auto s = first; s < last; ++s) {
        const auto at = std::lower_bound(groups.begin(), groups.end(), before[s] / size) - groups.begin();
        filling.expert.push_back(static_cast<std::uint32_t>(at) * size + before[s] % size);
      }
      cells_.push_back(search::cell_of(shape, weights, kind, groups));
      filling.worst = search::worst_load(cells_.back(), filling.expert);
      fillings_.push_back(std::move(filling));
      groups_.push_back(std::move(groups));
    }
    possible_ = true;
  }
  bool possible() const { return possible_; }

  // One move in the node with the heaviest GPU; false at a local minimum.
  bool step() {
    std::size_t heavy = 0;
    for (std::size_t n = 1; n < fillings_.size(); ++n)
      if (fillings_[n].worst > fillings_[heavy].worst) heavy = n;
    std::int64_t steps = std::int64_t(1) << 40;
    return search::descend(cells_[heavy], fillings_[heavy], steps, 1) == 1;
  }

  std::vector<std::int32_t> slots() const {
    std::vector<std::int32_t> slots;
    const auto size = shape_.group_size();
    for (std::size_t n = 0; n < fillings_.size(); ++n)
      for (const auto e : fillings_[n].expert)
        slots.push_back(static_cast<std::int32_t>(groups_[n][e / size] * size + e % size));
    return slots;
  }

 private:
  const Shape& shape_;
  search::Nodes nodes_;
  std::vector<search::Cell> cells_;
  std::vector<search::Filling> fillings_;
  std::vector<search::Groups> groups_;
  bool possible_ = false;
};

}  // namespace

std::vector<std::int32_t> rebalanced(const Shape& shape, const Loads& weights, Slots before, Slots fresh,
                                     double move_cost) {
  std::vector<std::int32_t> best(before.begin(), before.end());
  double best_price = 0;
  std::uint64_t best_moves = 0;
  const auto consider = [&](const std::vector<std::int32_t>& slots) {
    const double balance = max_over_mean(gpu_loads(shape, weights, slots));
    const auto moved = moves(shape, shape.nodes, before, slots).replicas;
    const double price = balance + move_cost * double(moved) / shape.replicas;
    if (price > best_price || (price == best_price && moved >= best_moves)) return;
    best = slots, best_price = price, best_moves = moved;
  };
  const double worst = worst_of(gpu_loads(shape, weights, fresh));
  const auto renamed = with_moves_undone(shape, weights, worst, before, relabelled(shape, before, fresh));
  best_price = 1e300;
  Downhill downhill(shape, weights, before);
  if (downhill.possible()) {
    consider(std::vector<std::int32_t>(before.begin(), before.end()));
    while (downhill.step()) consider(downhill.slots());
    // Some moves made on the way may be superfluous at the end.
    const auto end = downhill.slots();
    consider(with_moves_undone(shape, weights, worst_of(gpu_loads(shape, weights, end)), before, end));
  }
  consider(renamed);
  return best;
}

}  // namespace rehearsal::balance
