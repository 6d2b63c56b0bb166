#include "balance/eplb.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::balance {
namespace {

// Non-negative floats sort like their bits. Packs a load above an index into one word: the smaller word has the smaller
// load or, among equal loads, the lower index.
std::uint64_t key(float load, std::uint32_t index) {
  return std::uint64_t(std::bit_cast<std::uint32_t>(load)) << 32 | index;
}
// For descending order: the larger load has the smaller key, and among equal loads still the lower index.
std::uint64_t falling(float load, std::uint32_t index) {
  return std::uint64_t(~std::bit_cast<std::uint32_t>(load)) << 32 | index;
}

// The minimum of several keys, updated one key at a time: a tournament tree whose match 1 is the final.
class Tournament {
 public:
  Tournament(std::vector<std::uint64_t>& tree, std::uint32_t players)
      : tree_(tree), leaves_(std::bit_ceil(std::max(players, 1u))) {
    tree_.assign(std::size_t(leaves_) * 2, ~std::uint64_t(0));
  }
  void seed(std::uint32_t player, std::uint64_t key) { tree_[leaves_ + player] = key; }
  void play() {
    for (std::uint32_t match = leaves_ - 1; match > 0; --match)
      tree_[match] = std::min(tree_[2 * match], tree_[2 * match + 1]);
  }
  std::uint32_t winner() const { return static_cast<std::uint32_t>(tree_[1]); }
  void replace(std::uint32_t player, std::uint64_t key) {
    std::uint32_t match = leaves_ + player;
    tree_[match] = key;
    while (match > 1) {
      key = std::min(key, tree_[match ^ 1]);
      tree_[match >>= 1] = key;
    }
  }

 private:
  std::vector<std::uint64_t>& tree_;
  std::uint32_t leaves_;
};

constexpr std::uint64_t kOut = ~std::uint64_t(0);

}  // namespace

// By descending weight, stable. Radix sort: a layer has some hundred replicas, and a comparison sort would take longer
// than everything else together. Passes in which all keys have the same digit are skipped.
void Packer::sort(std::span<const float> weights) {
  const auto n = weights.size();
  keys_.resize(n), spare_.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) keys_[i] = falling(weights[i], i);
  if (n <= 64) {
    std::sort(keys_.begin(), keys_.end());
    return;
  }
  std::array<std::array<std::uint32_t, 256>, 4> digits{};
  for (const auto k : keys_)
    for (int d = 0; d < 4; ++d) digits[d][k >> (32 + 8 * d) & 255]++;
  for (int d = 0; d < 4; ++d) {
    auto& count = digits[d];
    if (count[keys_[0] >> (32 + 8 * d) & 255] == n) continue;
    std::uint32_t at = 0;
    for (auto& c : count) at += std::exchange(c, at);
    for (const auto k : keys_) spare_[count[k >> (32 + 8 * d) & 255]++] = k;
    keys_.swap(spare_);
  }
}

void Packer::pack(std::span<const float> weights, std::span<const std::uint32_t> room, std::span<Seat> seats) {
  sort(weights);
  left_.assign(room.begin(), room.end());
  Tournament lightest(tree_, static_cast<std::uint32_t>(room.size()));
  for (std::uint32_t p = 0; p < room.size(); ++p) lightest.seed(p, room[p] ? key(0.0f, p) : kOut);
  lightest.play();
  for (const auto k : keys_) {
    const auto item = static_cast<std::uint32_t>(k);
    const auto pack = lightest.winner();
    seats[item] = {pack, room[pack] - left_[pack]};
    const float load = std::bit_cast<float>(static_cast<std::uint32_t>(tree_[1] >> 32)) + weights[item];
    lightest.replace(pack, --left_[pack] ? key(load, pack) : kOut);
  }
}

void Packer::pack_evenly(std::span<const float> weights, std::uint32_t packs, std::span<Seat> seats) {
  const auto room = static_cast<std::uint32_t>(weights.size() / packs);
  if (room == 1) {
    for (std::uint32_t i = 0; i < weights.size(); ++i) seats[i] = {i, 0};
    return;
  }
  rooms_.assign(packs, room);
  pack(weights, rooms_, seats);
}

void replicate(std::span<const float> weights, std::span<std::uint32_t> expert, std::span<std::uint32_t> rank,
               std::span<std::uint32_t> counts, std::vector<std::uint64_t>& tree) {
  const auto n = static_cast<std::uint32_t>(weights.size());
  for (std::uint32_t e = 0; e < n; ++e) expert[e] = e, rank[e] = 0, counts[e] = 1;
  if (expert.size() == n) return;
  Tournament heaviest(tree, n);
  for (std::uint32_t e = 0; e < n; ++e) heaviest.seed(e, falling(weights[e], e));
  heaviest.play();
  for (std::size_t k = n; k < expert.size(); ++k) {
    const auto e = heaviest.winner();
    expert[k] = e, rank[k] = counts[e]++;
    heaviest.replace(e, falling(weights[e] / static_cast<float>(counts[e]), e));
  }
}

Placement eplb(const Problem& problem) {
  const Shape shape = shape_of(problem);
  INVARIANT(shape.even(), "EPLB deals equal parts");
  const std::uint32_t nodes = shape.nodes, groups = shape.groups, size = shape.group_size();
  const std::uint32_t node_experts = shape.experts / nodes, node_slots = shape.replicas / nodes;
  const std::uint32_t gpu_slots = shape.replicas / shape.gpus;
  Packer packer;
  std::vector<std::uint64_t> tree;
  std::vector<float> weights(shape.experts), group_weight(groups), own(node_experts), load(node_slots);
  std::vector<std::uint32_t> ordinal_to_expert(shape.experts), expert(node_slots), rank(node_slots),
      counts(node_experts);
  std::vector<Packer::Seat> group_seat(groups), seat(node_slots);

  Placement p;
  p.layers = problem.layers(), p.experts = shape.experts, p.replicas = shape.replicas;
  p.phy2log.resize(std::size_t(p.layers) * p.replicas);
  p.logcnt.resize(std::size_t(p.layers) * p.experts);
  std::vector<std::uint32_t> rank_of(p.phy2log.size());
  for (std::uint32_t l = 0; l < p.layers; ++l) {
    // Adding 0 turns -0, whose bits would sort wrongly, into 0.
    for (std::uint32_t e = 0; e < shape.experts; ++e) weights[e] = static_cast<float>(problem.weights[l][e]) + 0.0f;
    for (std::uint32_t g = 0; g < groups; ++g) {
      double sum = 0;  // exact for whole loads below 2^53; torch does not specify the order of its sum
      for (std::uint32_t e = g * size; e < (g + 1) * size; ++e) sum += weights[e];
      group_weight[g] = static_cast<float>(sum);
    }
    packer.pack_evenly(group_weight, nodes, group_seat);
    for (std::uint32_t e = 0; e < shape.experts; ++e) {
      const auto [node, place] = group_seat[e / size];
      ordinal_to_expert[(node * (groups / nodes) + place) * size + e % size] = e;
    }
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const auto* experts = ordinal_to_expert.data() + std::size_t(node) * node_experts;
      for (std::uint32_t m = 0; m < node_experts; ++m) own[m] = weights[experts[m]];
      replicate(own, expert, rank, counts, tree);
      for (std::uint32_t k = 0; k < node_slots; ++k) load[k] = own[expert[k]] / static_cast<float>(counts[expert[k]]);
      packer.pack_evenly(load, shape.gpus / nodes, seat);
      for (std::uint32_t k = 0; k < node_slots; ++k) {
        const auto slot = std::size_t(l) * p.replicas + node * node_slots + seat[k].pack * gpu_slots + seat[k].rank;
        p.phy2log[slot] = static_cast<std::int32_t>(experts[expert[k]]);
        rank_of[slot] = rank[k];
      }
      for (std::uint32_t m = 0; m < node_experts; ++m) {
        p.logcnt[std::size_t(l) * p.experts + experts[m]] = static_cast<std::int32_t>(counts[m]);
        p.most_copies = std::max(p.most_copies, counts[m]);
      }
    }
  }
  p.log2phy.assign(p.logcnt.size() * p.most_copies, -1);
  for (std::uint32_t l = 0; l < p.layers; ++l)
    for (std::uint32_t slot = 0; slot < p.replicas; ++slot) {
      const auto at = std::size_t(l) * p.replicas + slot;
      p.log2phy[(std::size_t(l) * p.experts + p.phy2log[at]) * p.most_copies + rank_of[at]] =
          static_cast<std::int32_t>(slot);
    }
  return p;
}

}  // namespace rehearsal::balance
