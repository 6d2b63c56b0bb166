// Lower bounds of time and memory, for a family of layouts and for a single one. A single layout is evaluated by
// answer::estimate and by the memory of `run`; sim/design/planning-search.md proves that these are bounds of it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/stage_costs.hpp"
#include "base/error.hpp"
#include "schedule/replay.hpp"
#include "search/space.hpp"

namespace rehearsal::search {

// The first error without its location: a location in the file does not help with a layout.
std::string said(const UserError& error);

// Communication between the replicas of one rank in a step: the collectives on its data lane.
struct Lane {
  Time all;     // serialised total
  Time serial;  // the part of it during which the rank computes nothing
};

// For a family, from one staging in which every layer is a stage of its own, on one rank.
struct FamilyPrices {
  // Embedding, each layer, head (an mlp: only layers). No transfers.
  schedule::Problem parts;
  // Computation only, under any setting: of a micro-batch, on all pipeline ranks together; and of the busiest rank of
  // any pipeline over these GPUs in a step, without bubble.
  Time each, compute;
  // Per setting: the same plus communication between replicas, and memory of the fullest rank. Empty if a rule that
  // needs a plan refuses the family, with the reason in `refused`.
  struct Floor {
    Setting setting;
    Time iteration;
    Bytes device;
  };
  std::vector<Floor> floors;
  std::string refused;
};
FamilyPrices family_prices(const Space& space, const Layout& family);
// Only the computation and `refused`, in a fraction of the time.
FamilyPrices family_compute(const Space& space, const Layout& family);
// `compute` of a family whose micro-batches take this long.
Time compute_of(const Space& space, const Layout& family, Time each);
// As if nothing were sharded or offloaded or, if rules forbid that, with the first ZeRO level among the settings that
// is allowed (LOMO's replicas: 3). Stage times are the same. Throws the error of the first attempt.
answer::StageCosts stage_plain(scenario::Scenario scenario, const std::function<std::vector<Setting>()>& settings);
// The stages of an order, assembled from those parts as a plan distributes them; nothing if that depends on their
// times.
std::optional<schedule::Problem> stages_of(const FamilyPrices& prices, const scenario::Scenario& scenario);

// A bound for all orders with the same placement of stages: the busiest rank, from when a first micro-batch can reach
// it until its last one has left the pipeline. `schedule` tells whether backwards are split. `lanes`: per rank, as
// below; empty if the end of the step is decisive.
Time passes_floor(const schedule::Schedule& schedule, const schedule::Problem& problem, const std::vector<Lane>& lanes);
// For ZeRO-2 and 3; empty for lower levels.
std::vector<Lane> lanes(const scenario::Scenario& scenario, const answer::StageCosts& staged);

// Memory on the device of the fullest rank: sharded states, the buffers that the walk of the schedule holds, the
// context. `staged` may have been staged under another setting.
Bytes device_floor(const scenario::Scenario& scenario, const answer::StageCosts& staged,
                   const schedule::Replay& passes);

}  // namespace rehearsal::search
