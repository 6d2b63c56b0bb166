// The simulator: the backend that rehearses. Prices come in as durations, one per work; times go out to the picosecond.
//
// A task starts when its dependencies have ended, its lane lets it (a serial lane: the task before has ended; lanes of
// messages: it has started, and a send no longer holds the wire) and the far end allows: a receive waits for its send,
// the members of a group start together. Two evaluators give the same timeline: "replay" needs no queue but a common
// order of ids, "events" takes any graph without a cycle; "auto" tries them in this order. One thread, integer time:
// the same bytes everywhere.
#pragma once
#include <memory>

#include "backend/backend.hpp"

namespace rehearsal::engine {

// prepare() does not validate: at tens of millions of tasks that costs more than the run. A cycle is found by the run
// and printed; the builder has checked the rest, and graph::validate is there for tests and hardware.
std::unique_ptr<backend::Backend> make_sim();

}  // namespace rehearsal::engine
