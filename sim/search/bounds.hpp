// What no layout of a family, and no layout at all, can do without: time and memory from below. The leaf itself is
// answer::estimate and what `run` says of memory; sim/design/planning-search.md derives why these are bounds of it.
#pragma once
#include <vector>

#include "answer/staged.hpp"
#include "schedule/replay.hpp"
#include "search/space.hpp"

namespace rehearsal::search {

// Of a whole family, from all parts of the model as they stand on one stage.
struct FamilyFloor {
  Time passes;         // of the busiest rank of any pipeline over these GPUs, without a bubble
  Bytes device;        // on the fullest GPU, under the setting that keeps least there
  bool legal = false;  // else a plan of it was refused
};
FamilyFloor family_floor(const Space& space, const Layout& family);

// Of all orders that put stages on ranks alike: the busiest rank, from when a first micro-batch can reach it until its
// last one has left the pipeline. `schedule`: whether it splits backwards says which of their times count.
Time passes_floor(const schedule::Schedule& schedule, const schedule::Problem& problem);

// Of the device of the fullest rank: states as they are sharded, what the walk of the schedule holds, the context.
// `staged` may have been staged with another setting.
Bytes device_floor(const scenario::Scenario& scenario, const answer::Staged& staged, const schedule::Replay& passes);

}  // namespace rehearsal::search
