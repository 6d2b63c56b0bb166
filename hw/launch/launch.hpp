// Hides from commands that ranks are separate processes. A command needs three lines:
//
//   auto backend = launch::open("mpi", arguments);           // arguments: of this program, all of them
//   ... backend->prepare(graph)->run(options) ...   // the same in every process, the first run counts
//   if (!launch::reports("mpi")) return 0;                        // a rank has nothing to say
//
// Started by the user, this process is the parent: prepare() checks, run() starts one process per rank of the graph,
// which runs this program again with the same arguments, and puts what they published together. In such a rank the same
// lines load the module, perform the rank, publish the result and end. So a command must come to run() with the same
// graph and options whoever runs it, before it writes anything, and it starts ranks once.
//
// Started by mpirun, srun or torchrun directly, nothing is started: each process is a rank, rank 0 has the timeline and
// reports (launch/rank_environment.hpp says who counts as started by what).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "launch/machine.hpp"
#include "launch/rank_environment.hpp"
#include "launch/supervise.hpp"

namespace rehearsal::launch {

// MPI's ranks are always processes, started by mpirun. Those of other modules are processes of this host, started
// without mpirun, when `in_processes` says so of a graph with that many ranks; otherwise, and without it, the module
// performs all ranks in this process. Throws MachineError when the module or mpirun is missing. run() throws what
// run_ranks throws (launch/supervise.hpp): also Interrupted, for which the program ends with status 128 + signal.
std::unique_ptr<backend::Backend> open(const std::string& name, std::vector<std::string> arguments,
                                       std::function<bool(std::size_t ranks)> in_processes = {});

// What open() would throw, in one sentence; for `rehearse list backends`.
std::optional<std::string> why_unavailable(const std::string& name);

// Whether this process writes the answer: the parent, or rank 0 of a job that the user started.
bool reports(const std::string& backend);

// Real compute with more ranks than cores takes turns: its times say nothing. Throws MachineError unless the options
// say that times do not matter. `here`: ranks on this machine.
void refuse_crowding(const backend::RunOptions& options, std::size_t here);

}  // namespace rehearsal::launch
