// Who stands where: the answer to a Problem, and what it is worth.
//
// Arrays are flat, layer after layer. phy2log[layer][slot] = expert; logcnt[layer][expert] = copies; log2phy[layer]
// [expert][k] = slot of its copy k, padded with -1 to `most_copies` (the largest count of all layers). A method may
// number the copies of an expert as it likes; where it does not, they are in order of slots.
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

// Largest load over the mean load: 1 is perfect, and what a layer without any load has. Its inverse is what some call
// balancedness.
double max_over_mean(const Loads& gpu_loads);

// Experts in order over the GPUs, one copy each and no redundancy: what training and a first start have.
Loads gpu_loads_in_order(const Shape& shape, const Loads& weights);

// Replicas that have to be brought to a GPU which did not hold (as many copies of) that expert.
struct Moves {
  std::uint64_t replicas = 0;
  std::uint64_t between_nodes = 0;  // of those, the ones whose node did not hold the expert either
};
Moves moves(const Shape& shape, std::uint32_t nodes, std::span<const std::int32_t> before,
            std::span<const std::int32_t> after);

}  // namespace rehearsal::balance
