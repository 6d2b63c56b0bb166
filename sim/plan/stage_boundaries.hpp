// The parts of the activation at a stage boundary that each rank has: the tensor is (sequences, tokens, hidden) of a
// whole micro-batch, for all replicas together.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/mesh.hpp"
#include "plan/parallelism.hpp"
#include "reshard/sharding.hpp"

namespace rehearsal::plan {

using BoundaryShape = std::array<std::int64_t, 3>;  // sequences, tokens, hidden

// A box, and its location on a rank: the row of (sequence, token) is
// first + (sequence - box.sequences.low) x per_sequence + (token - box.tokens.low), each of `hidden` elements.
struct HeldBox {
  reshard::Box box;
  std::int64_t first = 0, per_sequence = 0;
};

struct StageBoundary {
  BoundaryShape shape{};
  std::vector<std::vector<HeldBox>> held;      // of each rank of the stage: what it computes with
  std::vector<std::vector<reshard::Box>> own;  // what it sends and is sent; less than `held` with StageLayout::sharding
  // Groups of ranks that hold the same and own different parts of it: they gather. Empty: each owns what it holds.
  std::vector<std::vector<std::uint32_t>> gather;
};

// The boundary of a stage with this layout. `balances_context`: rank i of a context group has pieces i and 2c-1-i of
// 2c. Throws UserError if a sharding does not fit, with the rule.
StageBoundary stage_boundary_of(const StageLayout& layout, const Mesh& mesh, const BoundaryShape& shape,
                                bool balances_context);

}  // namespace rehearsal::plan
