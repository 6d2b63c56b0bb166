// Which algorithm NCCL runs, and how long it takes alone: the fastest registered one of the kind that applies.
#pragma once
#include <string_view>

#include "collective/collective.hpp"
#include "collective/registry.hpp"

namespace rehearsal::collective {

// What is asked besides the wires.
struct Nccl {
  int version = 230;  // 100 x major + minor
  Fit fit{};
  const Registry* algorithms = &registry();
};

struct Choice {
  const Algorithm* algorithm = nullptr;  // null: nothing to do
  double seconds = 0;
};

// Among the ranks of one node; `wires.rate` as sold, of one rank's port. 0 s for one rank or nothing to move. Throws
// UserError where no algorithm applies.
Choice inside_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Wires& wires, const NvLink& links,
                   const Nccl& nccl = {});

// Across nodes; `wires.inside` holds what the same takes inside one.
Choice across_nodes(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const NvLink& links,
                    const Nccl& nccl = {});

}  // namespace rehearsal::collective
