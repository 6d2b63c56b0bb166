// Performs a graph with the threads of one process, one per rank.
//
// Timed compute waits out its time and messages arrive after theirs: real are the order, the waiting and the clock, so
// it shows whether a graph runs as rehearsed when nobody plans ahead of time, and finds orders that hang. Real compute
// trains the network: kernels, messages and collectives move real bytes, at any number of ranks.
#pragma once
#include <functional>
#include <memory>

#include "backend/backend.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::loopback {

// What computes for a rank, made in its thread.
using WorkerFactory =
    std::function<std::unique_ptr<dispatch::Worker>(const graph::TaskGraph&, RankId, const backend::RunOptions&)>;

// prepare() validates the graph (InternalError), and throws MachineError beyond 512 threads and for orders that need
// buffered messages. run() throws MachineError with the heads of all lanes when nothing has moved for options.timeout,
// and passes on what a rank throws, with its name.
std::unique_ptr<backend::Backend> make_loopback();  // computes on the CPU
std::unique_ptr<backend::Backend> make_loopback(WorkerFactory workers);

}  // namespace rehearsal::loopback
