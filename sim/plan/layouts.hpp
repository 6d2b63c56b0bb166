// Stages with layouts of their own: each is planned as if all were cut like it, and their ranks follow each other.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace rehearsal::plan {

// All stages cut alike, on GPUs that may be more than there are; `machine`: null to make it.
Plan plan_alike(Job job, std::shared_ptr<const cluster::Machine> machine);
// Throws UserError where a stage cannot be planned, and names it.
Plan plan_of_layouts(Job job);

// What is wrong with one of the layouts: its number, and which of its keys says so.
struct BrokenLayout {
  std::size_t stage = 0;
  const char* key = "";  // "gpus"
  std::string rule;
};
// GPUs that stages share or do not have; `gpus`: of the cluster, where it is known.
std::vector<BrokenLayout> broken_by_seats(const std::vector<StageLayout>& layouts, std::optional<std::int64_t> gpus);
// The GPU of every rank, stage after stage. `layouts` break no rule.
std::vector<std::uint32_t> seats_of(const std::vector<StageLayout>& layouts);

// Throws UserError where a stage does not compute with what its sharding gives it.
void check_sharding(const Parallelism& parallelism, std::size_t stage, const AxisOrder& placement,
                    const BoundaryShape& shape);

// What does not go with layouts of their own: a key of the scenario, and why.
struct AgainstLayouts {
  const char* key;
  std::string rule;
};
std::vector<AgainstLayouts> refused_with_layouts(const Job& job);

}  // namespace rehearsal::plan
