// Stages with layouts of their own: each is planned as if all were cut like it, and their ranks follow each other.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace rehearsal::plan {

// Plans all stages with one layout, on GPUs that need not exist; `machine`: null to create it.
Plan plan_alike(Job job, std::shared_ptr<const cluster::Machine> machine);
// Throws UserError if a stage cannot be planned, and names it.
Plan plan_of_layouts(Job job);

// An invalid layout: its number, and the key that makes it so.
struct BrokenLayout {
  std::size_t stage = 0;
  const char* key = "";  // "gpus"
  std::string rule;
};
// GPUs that stages share, or that do not exist; `gpus`: of the cluster, if it is known.
std::vector<BrokenLayout> broken_by_seats(const std::vector<StageLayout>& layouts, std::optional<std::int64_t> gpus);
// The GPU of every rank, stage after stage. `layouts` break no rule.
std::vector<std::uint32_t> seats_of(const std::vector<StageLayout>& layouts);

// Throws UserError if the sharding of a stage does not fit what the stage computes with.
void check_sharding(const Parallelism& parallelism, std::size_t stage, const AxisOrder& placement,
                    const BoundaryShape& shape);

// A key of the scenario that cannot be combined with different layouts, and why.
struct AgainstLayouts {
  const char* key;
  std::string rule;
};
std::vector<AgainstLayouts> refused_with_layouts(const Job& job);

}  // namespace rehearsal::plan
