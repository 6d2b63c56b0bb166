// Performs a graph with the threads of one process: compute waits out its time, messages and collectives really meet.
//
// One thread per rank and lane issues its tasks in id order. Nothing is computed and nothing is copied: what is real is
// the order, the waiting and the clock. So it shows whether a graph runs as rehearsed when nobody plans ahead of time,
// and finds orders that hang.
#pragma once
#include <memory>

#include "backend/backend.hpp"

namespace rehearsal::loopback {

// prepare() validates the graph (InternalError) and throws MachineError beyond 512 threads. run() throws MachineError
// with the heads of all lanes when nothing has moved for options.timeout.
std::unique_ptr<backend::Backend> make_loopback();

}  // namespace rehearsal::loopback
