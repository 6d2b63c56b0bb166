// Which algorithm NCCL runs, and how long it takes alone: the fastest registered one of the kind that applies.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective/closed_form.hpp"
#include "collective/registry.hpp"

namespace rehearsal::collective {

// What is asked besides the wires.
struct Nccl {
  Version version = kNewestNccl;
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

// Why NCCL does not run an algorithm.
enum class Refusal : std::uint8_t { none, not_in_nccl, too_new, not_here };
Refusal refusal(const Algorithm& algorithm, Shape shape, const NvLink& links, const Nccl& nccl);

// An algorithm beside the chosen one; no price where it cannot run at all.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Refusal refusal = Refusal::none;
  double seconds = 0;
  std::optional<ClosedForm> form;
  double share = 1;  // of wires.rate that it counts on
};
std::string reason(const Candidate& candidate,
                   const Nccl& nccl);  // "needs several nodes"; empty for those that may run

// Every registered algorithm of the kind, by the same prices. `wires` as the two above take them.
std::vector<Candidate> candidates(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const NvLink& links,
                                  const Nccl& nccl = {});

}  // namespace rehearsal::collective
