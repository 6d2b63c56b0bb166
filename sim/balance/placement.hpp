// A placement of experts on GPUs, the answer to a Problem, and its quality.
//
// Arrays are flat, layer after layer. phy2log[layer][slot] = expert; logcnt[layer][expert] = copies; log2phy[layer]
// [expert][k] = slot of its copy k, padded with -1 to `most_copies` (the largest count of all layers). Copies of an
// expert are numbered in order of slots unless the method chooses otherwise.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "balance/problem.hpp"

namespace rehearsal::balance {

struct Placement {
  std::uint32_t layers = 0, experts = 0, replicas = 0, most_copies = 0;
  std::vector<std::int32_t> phy2log, logcnt, log2phy;

  std::span<const std::int32_t> slots(std::uint32_t layer) const {
    return {phy2log.data() + std::size_t(layer) * replicas, replicas};
  }
  std::span<const std::int32_t> counts(std::uint32_t layer) const {
    return {logcnt.data() + std::size_t(layer) * experts, experts};
  }
  std::span<const std::int32_t> copies(std::uint32_t layer, std::uint32_t expert) const {
    return {log2phy.data() + (std::size_t(layer) * experts + expert) * most_copies, most_copies};
  }
};

// The placement with these experts in its slots (layers x replicas); copies are numbered in order of slots.
Placement placed(std::vector<std::int32_t> phy2log, std::uint32_t layers, std::uint32_t experts);

// Load of every GPU of one layer: the sum of weight/copies over its slots.
Loads gpu_loads(const Shape& shape, const Loads& weights, std::span<const std::int32_t> slots);

// Largest over mean load: 1 is perfect, also used for a layer without any load. Its inverse is sometimes called
// balancedness.
double max_over_mean(const Loads& gpu_loads);

// Experts in order over the GPUs, one copy each without redundancy, as in training or initially.
Loads gpu_loads_in_order(const Shape& shape, const Loads& weights);

// Replicas that must be copied to a GPU which did not hold that expert (or fewer copies of it).
struct Moves {
  std::uint64_t replicas = 0;
  std::uint64_t between_nodes = 0;  // of those, the ones whose node did not hold the expert either
};
Moves moves(const Shape& shape, std::uint32_t nodes, std::span<const std::int32_t> before,
            std::span<const std::int32_t> after);
// The same of each GPU, which receives them.
std::vector<Moves> moves_to_gpus(const Shape& shape, std::uint32_t nodes, std::span<const std::int32_t> before,
                                 std::span<const std::int32_t> after);

}  // namespace rehearsal::balance
