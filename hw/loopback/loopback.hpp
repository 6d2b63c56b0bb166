// Performs a graph with the threads of one process, one per rank.
//
// Timed compute waits out its predicted time, and messages arrive after theirs. Order, waiting and the clock are real,
// so it shows whether a graph runs as rehearsed when its times are not planned in advance, and finds orders that hang.
// Real compute trains the network: kernels, messages and collectives move real bytes, at any number of ranks.
#pragma once
#include <functional>
#include <memory>

#include "backend/backend.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::loopback {

// Makes a rank's worker, in the rank's thread.
using WorkerFactory =
    std::function<std::unique_ptr<dispatch::Worker>(const graph::TaskGraph&, RankId, const backend::RunOptions&)>;

// prepare() validates the graph (InternalError), and throws MachineError for more than 512 threads and for orders that
// need buffered messages. run() throws MachineError with the heads of all lanes when there is no progress for
// options.timeout, and passes on a rank's exception with the rank's name.
std::unique_ptr<backend::Backend> make_loopback();  // computes on the CPU
std::unique_ptr<backend::Backend> make_loopback(WorkerFactory workers);

}  // namespace rehearsal::loopback
