#include "balance/search/partition.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>

#include "balance/eplb.hpp"

namespace rehearsal::balance::search {
namespace {

constexpr std::size_t kMostKept = 2000;         // partitions kept for the search
constexpr std::uint32_t kMostVisits = 300'000;  // sets of groups tried per node, before exchanging groups
constexpr std::uint32_t kMostGroups = 32;       // a set is a bit mask

using Set = std::uint32_t;

Groups groups_in(Set set) {
  Groups groups;
  for (; set; set &= set - 1) groups.push_back(static_cast<std::uint32_t>(std::countr_zero(set)));
  return groups;
}

class Enumeration {
 public:
  Enumeration(double limit, const Nodes& nodes, const BoundOf& bound_of)
      : limit_(limit), nodes_(nodes), bound_of_(bound_of), order_(nodes.kind_of.size()), chosen_(order_.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(), [&](auto a, auto b) { return kind(a) < kind(b); });
  }

  // False if there are too many.
  bool run(std::uint32_t groups) {
    place(0, groups == 32 ? ~Set(0) : (Set(1) << groups) - 1, 0);
    return visits_ <= kMostVisits;
  }
  std::vector<Partition>& found() { return found_; }
  double least() const { return least_; }

 private:
  std::uint32_t kind(std::uint32_t node) const { return nodes_.kind_of[node]; }

  void place(std::size_t i, Set left, double bound) {
    if (i == order_.size()) return keep(bound);
    // Among nodes of one kind, the one with the lowest group comes first.
    Set fixed = 0;
    if (kind(order_[i]) == kind(order_.back())) fixed = left & -left;
    const Set above = i > 0 && kind(order_[i]) == kind(order_[i - 1]) ? chosen_[i - 1] & -chosen_[i - 1] : 0;
    const auto size = nodes_.kinds[kind(order_[i])].groups;
    choose(i, left, left & ~fixed, fixed, above, size - std::popcount(fixed), bound);
  }

  // Adds `missing` groups out of `open` to `set`.
  void choose(std::size_t i, Set left, Set open, Set set, Set above, int missing, double bound) {
    if (visits_ > kMostVisits) return;
    if (missing == 0) {
      if ((set & -set) <= above && above) return;
      visits_++;
      const double own = bound_of_set(kind(order_[i]), set);
      const double all = std::max(bound, own);
      if (all >= limit_) return;
      chosen_[i] = set;
      place(i + 1, left & ~set, all);
      return;
    }
    for (Set rest = open; std::popcount(rest) >= missing;) {
      const Set next = rest & -rest;
      rest &= ~next;
      choose(i, left, rest, set | next, above, missing - 1, bound);
    }
  }

  double bound_of_set(std::uint32_t kind, Set set) {
    const auto [it, is_new] = bounds_.try_emplace(std::uint64_t(kind) << 32 | set, 0.0);
    if (is_new) it->second = bound_of_(kind, groups_in(set));
    return it->second;
  }

  void keep(double bound) {
    Partition p;
    p.bound = bound;
    p.groups.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) p.groups[order_[i]] = groups_in(chosen_[i]);
    found_.push_back(std::move(p));
    least_ = std::min(least_, bound);
    if (found_.size() < 2 * kMostKept) return;
    // The worse half, and anything similar found later, is discarded to save memory.
    std::nth_element(found_.begin(), found_.begin() + kMostKept, found_.end(),
                     [](const auto& a, const auto& b) { return a.bound < b.bound; });
    limit_ = found_[kMostKept].bound;
    std::erase_if(found_, [&](const auto& f) { return f.bound >= limit_ && f.bound > least_; });
    if (found_.size() > kMostKept) found_.resize(kMostKept);
  }

  double limit_, least_ = 1e300;
  const Nodes& nodes_;
  const BoundOf& bound_of_;
  std::vector<std::uint32_t> order_;
  std::vector<Set> chosen_;
  std::uint32_t visits_ = 0;
  std::unordered_map<std::uint64_t, double> bounds_;
  std::vector<Partition> found_;
};

Loads group_loads(const Shape& shape, const Loads& weights) {
  Loads sums(shape.groups, 0.0);
  for (std::uint32_t e = 0; e < shape.experts; ++e) sums[e / shape.group_size()] += weights[e];
  return sums;
}

// Assigns groups, heaviest first, to the node with the least load, then exchanges pairs of groups as long as that
// lowers the bound of the worse of two nodes. Every partition on the way is kept.
std::vector<Partition> by_exchange(const Shape& shape, const Loads& weights, const Nodes& nodes,
                                   const BoundOf& bound_of) {
  const Loads sums = group_loads(shape, weights);
  std::vector<float> load(sums.begin(), sums.end());
  std::vector<std::uint32_t> room;
  for (const auto k : nodes.kind_of) room.push_back(nodes.kinds[k].groups);
  std::vector<Packer::Seat> seat(load.size());
  Packer().pack(load, room, seat);
  Partition now;
  now.groups.resize(room.size());
  for (std::uint32_t g = 0; g < load.size(); ++g) now.groups[seat[g].pack].push_back(g);
  std::vector<Partition> found;
  for (int rounds = 0; rounds < 64; ++rounds) {
    std::vector<double> bounds(room.size());
    for (std::size_t n = 0; n < room.size(); ++n) bounds[n] = bound_of(nodes.kind_of[n], now.groups[n]);
    const auto worst = static_cast<std::size_t>(std::max_element(bounds.begin(), bounds.end()) - bounds.begin());
    now.bound = bounds[worst];
    found.push_back(now);
    double best = now.bound;
    Partition next;
    for (std::size_t n = 0; n < room.size(); ++n)
      for (std::size_t a = 0; n != worst && a < now.groups[worst].size(); ++a)
        for (std::size_t b = 0; b < now.groups[n].size(); ++b) {
          if (sums[now.groups[worst][a]] == sums[now.groups[n][b]]) continue;
          Groups mine = now.groups[worst], theirs = now.groups[n];
          std::swap(mine[a], theirs[b]);
          std::sort(mine.begin(), mine.end()), std::sort(theirs.begin(), theirs.end());
          const double bound = std::max(bound_of(nodes.kind_of[worst], mine), bound_of(nodes.kind_of[n], theirs));
          if (bound >= best) continue;
          best = bound;
          next = now;
          next.groups[worst] = mine, next.groups[n] = theirs;
        }
    if (next.groups.empty()) break;
    now = std::move(next);
  }
  return found;
}

// A bound for all partitions if these are too many to enumerate: the bound without nodes, and that of the node with the
// heaviest group and the lightest possible other groups.
double relaxed_bound(const Shape& shape, const Loads& weights, const Nodes& nodes) {
  Cell all{weights, {}};
  for (std::uint32_t g = 0; g < shape.gpus; ++g) all.room.push_back(shape.slots(g));
  double bound = cell_bound(all);
  Loads sums = group_loads(shape, weights);
  std::sort(sums.begin(), sums.end());
  double least = 1e300;
  for (const auto& kind : nodes.kinds) {
    double node = sums.back();
    for (std::uint32_t g = 0; g + 1 < kind.groups; ++g) node += sums[g];
    least = std::min(least, node / double(kind.room.size()));
  }
  return std::max(bound, least);
}

}  // namespace

Nodes nodes_of(const Shape& shape) {
  Nodes nodes;
  for (std::uint32_t n = 0; n < shape.nodes; ++n) {
    NodeKind kind{shape.first_group(n + 1) - shape.first_group(n), {}};
    for (auto g = shape.first_gpu(n); g < shape.first_gpu(n + 1); ++g) kind.room.push_back(shape.slots(g));
    const auto same = std::find(nodes.kinds.begin(), nodes.kinds.end(), kind);
    nodes.kind_of.push_back(static_cast<std::uint32_t>(same - nodes.kinds.begin()));
    if (same == nodes.kinds.end()) nodes.kinds.push_back(std::move(kind));
  }
  return nodes;
}

Cell cell_of(const Shape& shape, const Loads& weights, const NodeKind& kind, const Groups& groups) {
  Cell cell{{}, kind.room};
  const auto size = shape.group_size();
  cell.weights.reserve(groups.size() * size);
  for (const auto g : groups)
    cell.weights.insert(cell.weights.end(), weights.begin() + g * size, weights.begin() + (g + 1) * size);
  return cell;
}

Partitions partitions_below(double limit, const Shape& shape, const Loads& weights, const Nodes& nodes,
                            const BoundOf& bound_of) {
  Partitions result;
  if (shape.groups <= kMostGroups) {
    Enumeration all(limit, nodes, bound_of);
    result.complete = all.run(shape.groups);
    if (result.complete) {
      result.list = std::move(all.found());
      result.bound = std::min(limit, all.least());
    }
  }
  if (!result.complete) {
    result.list = by_exchange(shape, weights, nodes, bound_of);
    std::erase_if(result.list, [&](const auto& p) { return p.bound >= limit; });
    result.bound = std::min(limit, relaxed_bound(shape, weights, nodes));
  }
  std::stable_sort(result.list.begin(), result.list.end(),
                   [](const auto& a, const auto& b) { return a.bound < b.bound; });
  return result;
}

}  // namespace rehearsal::balance::search
