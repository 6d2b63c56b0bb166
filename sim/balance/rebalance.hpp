// Rebalancing a placement that is already in use: transferring expert weights takes time, so as many replicas as
// possible stay where they are.
//
// Three methods. Relabelling: nodes with equal numbers of groups and slots are interchangeable, and so are the GPUs of
// a node, so new places are matched to old ones exactly, by the assignment problem. Slack: only the heaviest GPU
// counts, so moves that do not affect it are undone. And a placement a few moves from the old one may be as good as a
// completely new one.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "balance/placement.hpp"

namespace rehearsal::balance {

// The same placement with nodes and GPUs renumbered so that the fewest replicas move. A replica that stays
// keeps its slot.
std::vector<std::int32_t> relabelled(const Shape& shape, std::span<const std::int32_t> before,
                                     std::span<const std::int32_t> after);

// Undoes moves by exchanging replicas between GPUs of a node, as long as no GPU exceeds `limit`.
std::vector<std::int32_t> with_moves_undone(const Shape& shape, const Loads& weights, double limit,
                                            std::span<const std::int32_t> before, std::span<const std::int32_t> after);

// For one layer, the placement that minimises
//   max over mean + move_cost * moved replicas / replicas
// among the old one, those on a descent from it, and `fresh` with the fewest moves. Among
// equals, the one with fewer moves. With move_cost 0 the result is at least as balanced as `fresh`.
std::vector<std::int32_t> rebalanced(const Shape& shape, const Loads& weights, std::span<const std::int32_t> before,
                                     std::span<const std::int32_t> fresh, double move_cost);

}  // namespace rehearsal::balance
