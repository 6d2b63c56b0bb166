// A resharding plan as a task graph, so that a backend can perform it.
#pragma once
#include "lower/alone.hpp"
#include "reshard/answer.hpp"

namespace rehearsal::lower {

// One rank per device, those of the source first; a mesh row is a node. Each rank posts its messages in the order of
// the plan (reshard::carries), every chunk of a broadcast by itself, and forwards one when it has arrived.
Alone resharded(const reshard::Question& question, const reshard::Answer& answer);

}  // namespace rehearsal::lower
