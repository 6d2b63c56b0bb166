// A new placement where one is already in use: expert weights that have to travel cost time, so as many replicas as
// possible stay where they are.
//
// Three things help. Names are free: nodes with as many groups and slots are interchangeable, and so are the GPUs of a
// node, so new places are dealt to old ones by the assignment problem, exactly. Slack is free: only the heaviest GPU
// counts, so moves that the others can do without are taken back. And a placement reached from the old one by few moves
// may be as good as one made from nothing.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "balance/placement.hpp"

namespace rehearsal::balance {

// The same placement under other names of nodes and GPUs, such that the fewest replicas move. A replica that stays
// keeps its slot.
std::vector<std::int32_t> relabelled(const Shape& shape, std::span<const std::int32_t> before,
                                     std::span<const std::int32_t> after);

// Exchanges of replicas between GPUs of a node that put back what was moved, as long as no GPU ends above `limit`.
std::vector<std::int32_t> with_moves_undone(const Shape& shape, const Loads& weights, double limit,
                                            std::span<const std::int32_t> before, std::span<const std::int32_t> after);

// For one layer, the placement with the least
//   max over mean + move_cost * moved replicas / replicas
// of those considered: the old one, the ones on the way from it downhill, and `fresh` with the fewest moves. Among
// equals the one with fewer moves. With move_cost 0 the result is at least as balanced as `fresh`.
std::vector<std::int32_t> rebalanced(const Shape& shape, const Loads& weights, std::span<const std::int32_t> before,
                                     std::span<const std::int32_t> fresh, double move_cost);

}  // namespace rehearsal::balance
