// What no layout of a family, and no layout at all, can do without: time and memory from below. The leaf itself is
// answer::estimate and what `run` says of memory; sim/design/planning-search.md derives why these are bounds of it.
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

// The first of what is wrong, without its place: that of the file says nothing of a layout.
std::string said(const UserError& error);

// What replicas say to each other in a step, of one rank: collectives that are all on its data lane.
struct Lane {
  Time all;     // one after the other
  Time serial;  // of these: while the rank computes nothing
};

// Of a family, from one staging in which every layer is a stage of its own, on one rank.
struct FamilyPrices {
  // Embedding, layers one by one, head (an mlp: its layers alone). No transfers.
  schedule::Problem parts;
  // Of computing alone, under any setting: time of the busiest rank of any pipeline over these GPUs, without a bubble.
  Time compute;
  // Under each setting: the same with what replicas say to each other, and memory of the fullest. Empty where a rule
  // that only a plan knows refuses the family, for the reason `refused`.
  struct Floor {
    Setting setting;
    Time iteration;
    Bytes device;
  };
  std::vector<Floor> floors;
  std::string refused;
};
FamilyPrices family_prices(const Space& space, const Layout& family);
// `compute` and `refused` of these alone, which takes a fraction of the time.
FamilyPrices family_compute(const Space& space, const Layout& family);
// As if nothing were sharded and nothing left the device; where rules do not allow that, with the first level of ZeRO
// of these that they do (LOMO's replicas: 3). Stages take the same times. Throws what was said of the first.
answer::StageCosts stage_plain(scenario::Scenario scenario, const std::function<std::vector<Setting>()>& settings);
// The stages of an order made of those parts, as a plan deals them; nothing where that depends on their times.
std::optional<schedule::Problem> stages_of(const FamilyPrices& prices, const scenario::Scenario& scenario);

// Of all orders that put stages on ranks alike: the busiest rank, from when a first micro-batch can reach it until its
// last one has left the pipeline. `schedule`: whether it splits backwards says which of their times count. `lanes`: of
// each rank, as below; empty where the end of the step tells.
Time passes_floor(const schedule::Schedule& schedule, const schedule::Problem& problem, const std::vector<Lane>& lanes);
// Of ZeRO-2 and 3; nothing below.
std::vector<Lane> lanes(const scenario::Scenario& scenario, const answer::StageCosts& staged);

// Of the device of the fullest rank: states as they are sharded, what the walk of the schedule holds, the context.
// `staged` may have been staged under another setting.
Bytes device_floor(const scenario::Scenario& scenario, const answer::StageCosts& staged, const schedule::Replay& passes);

}  // namespace rehearsal::search
