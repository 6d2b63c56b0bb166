#include "balance/placement.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::balance {

Placement placed(std::vector<std::int32_t> phy2log, std::uint32_t layers, std::uint32_t experts) {
  Placement p;
  p.layers = layers, p.experts = experts;
  p.replicas = layers ? static_cast<std::uint32_t>(phy2log.size() / layers) : 0;
  p.phy2log = std::move(phy2log);
  p.logcnt.assign(std::size_t(layers) * experts, 0);
  for (std::uint32_t l = 0; l < layers; ++l)
    for (const auto e : p.slots(l)) {
      INVARIANT(e >= 0 && std::uint32_t(e) < experts, "a slot holds an expert");
      p.logcnt[std::size_t(l) * experts + e]++;
    }
  for (const auto c : p.logcnt) p.most_copies = std::max(p.most_copies, static_cast<std::uint32_t>(c));
  p.log2phy.assign(p.logcnt.size() * p.most_copies, -1);
  std::vector<std::uint32_t> placed_copies(p.logcnt.size(), 0);
  for (std::uint32_t l = 0; l < layers; ++l)
    for (std::uint32_t slot = 0; slot < p.replicas; ++slot) {
      const auto row = std::size_t(l) * experts + p.slots(l)[slot];
      p.log2phy[row * p.most_copies + placed_copies[row]++] = static_cast<std::int32_t>(slot);
    }
  return p;
}

Loads gpu_loads(const Shape& shape, const Loads& weights, std::span<const std::int32_t> slots) {
  std::vector<std::uint32_t> counts(shape.experts);
  for (const auto e : slots) counts[e]++;
  Loads loads(shape.gpus, 0.0);
  for (std::uint32_t g = 0; g < shape.gpus; ++g)
    for (auto slot = shape.first_slot(g); slot < shape.first_slot(g + 1); ++slot)
      loads[g] += weights[slots[slot]] / counts[slots[slot]];
  return loads;
}

double max_over_mean(const Loads& gpu_loads) {
  double sum = 0, most = 0;
  for (const double load : gpu_loads) sum += load, most = std::max(most, load);
  // Rounding may put the mean of equal loads above them.
  return sum > 0 ? std::max(1.0, most * double(gpu_loads.size()) / sum) : 1.0;
}

Loads gpu_loads_in_order(const Shape& shape, const Loads& weights) {
  Loads loads(shape.gpus, 0.0);
  for (std::uint32_t e = 0; e < shape.experts; ++e) loads[std::uint64_t(e) * shape.gpus / shape.experts] += weights[e];
  return loads;
}

Moves moves(const Shape& shape, std::uint32_t nodes, std::span<const std::int32_t> before,
            std::span<const std::int32_t> after) {
  Moves sum;
  for (const auto& to : moves_to_gpus(shape, nodes, before, after))
    sum.replicas += to.replicas, sum.between_nodes += to.between_nodes;
  return sum;
}

std::vector<Moves> moves_to_gpus(const Shape& shape, std::uint32_t nodes, std::span<const std::int32_t> before,
                                 std::span<const std::int32_t> after) {
  std::vector<Moves> counted(shape.gpus);
  std::vector<std::uint32_t> held(shape.experts), on_node(shape.experts);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    const auto first = static_cast<std::uint32_t>(std::uint64_t(shape.gpus) * n / nodes);
    const auto last = static_cast<std::uint32_t>(std::uint64_t(shape.gpus) * (n + 1) / nodes);
    for (auto slot = shape.first_slot(first); slot < shape.first_slot(last); ++slot) on_node[before[slot]] = n + 1;
    for (auto g = first; g < last; ++g) {
      for (auto slot = shape.first_slot(g); slot < shape.first_slot(g + 1); ++slot) held[before[slot]]++;
      for (auto slot = shape.first_slot(g); slot < shape.first_slot(g + 1); ++slot) {
        const auto e = after[slot];
        if (held[e] > 0) {
          held[e]--;
          continue;
        }
        counted[g].replicas++;
        if (on_node[e] != n + 1) counted[g].between_nodes++;
      }
      for (auto slot = shape.first_slot(g); slot < shape.first_slot(g + 1); ++slot) held[before[slot]] = 0;
    }
  }
  return counted;
}

}  // namespace rehearsal::balance
