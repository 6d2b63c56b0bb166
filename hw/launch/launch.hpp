// Hides from commands that ranks are separate processes. A command needs three lines:
//
//   auto backend = launch::open("mpi", arguments);           // arguments: of this program, all of them
//   ... backend->prepare(graph)->run(options) ...   // the same in every process, the first run counts
//   if (!launch::reports("mpi")) return 0;                        // a rank has nothing to say
//
// In the process that the user started, the parent, prepare() checks, and run() starts one process per rank of the
// graph, which runs this program again with the same arguments; then run() combines what they published. In a rank the
// same lines load the module, perform the rank, publish the result and end. So a command must reach run() with the same
// graph and options in every process, before it writes anything, and may start ranks only once.
//
// Started directly by mpirun, srun or torchrun, each process is a rank and starts nothing; rank 0 has the timeline and
// reports (launch/rank_environment.hpp defines how the launcher is recognised).
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

// MPI's ranks are always processes, started by mpirun. For other modules, if `in_processes` returns true for the number
// of ranks, ranks are processes of this host, started without mpirun; otherwise the module performs all ranks in this
// process. Throws MachineError when the module or mpirun is missing. run() throws what run_ranks throws
// (launch/supervise.hpp): also Interrupted, for which the program ends with status 128 + signal.
std::unique_ptr<backend::Backend> open(const std::string& name, std::vector<std::string> arguments,
                                       std::function<bool(std::size_t ranks)> in_processes = {});

// The error of open() in one sentence, if it would fail; for `rehearse list backends`.
std::optional<std::string> why_unavailable(const std::string& name);

// Whether this process writes the answer: the parent, or rank 0 of a job that the user started.
bool reports(const std::string& backend);

// With more ranks than cores, ranks of real compute take turns, so their times are meaningless. Throws MachineError
// then, unless the options say that times do not matter. `here`: ranks on this machine.
void refuse_crowding(const backend::RunOptions& options, std::size_t here);

}  // namespace rehearsal::launch
