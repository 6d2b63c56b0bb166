#include "launch/bootstrap.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.hpp"
#include "launch/frames.hpp"
#include "launch/shared_folder.hpp"
#include "launch/star.hpp"
#include "modules/module.hpp"

namespace rehearsal::launch {
namespace {

std::unique_ptr<Bootstrap> open_mpi(const RankEnvironment& mine) {
  std::unique_ptr<Bootstrap> all(static_cast<Bootstrap*>(modules::open_module("mpi", kBootstrapEntry)));
  if (all->rank() == mine.rank && all->size() == mine.size) return all;
  throw MachineError(
      fmt::format("MPI takes this process for rank {} of {} and not for rank {} of {}: was {} told to "
                  "start MPI's ranks (srun --mpi=pmix)?",
                  all->rank(), all->size(), mine.rank, mine.size, mine.launcher));
}

}  // namespace

// Through rank 0: twice as many messages as ranks, instead of their square.
std::vector<std::string> Bootstrap::gather_everywhere(const std::string& name, std::string_view bytes) {
  const auto all = split_frames(broadcast(name, join_frames(gather(name, bytes))));
  INVARIANT(all.size() == size_, "rank 0 joins one text of every rank");
  return all;
}

std::unique_ptr<Bootstrap> open_bootstrap(const RankEnvironment& mine, const Variables& variables, Time patience) {
  if (const auto socket = variables(kSocketVariable)) return join_star(std::atoi(socket->c_str()), mine);
  if (const auto folder = variables(kRendezvousVariable)) {
    if (std::filesystem::path(*folder).is_absolute()) return open_shared_folder(*folder, mine, patience);
    throw UserError(fmt::format("{} is '{}'; it must be an absolute path", kRendezvousVariable, *folder));
  }
  const std::string remedy = fmt::format("{}=/path of a folder that all of them see", kRendezvousVariable);
  if (mine.launcher != "mpirun" && mine.launcher != "srun")
    throw UserError(
        fmt::format("ranks started {} meet in a folder: set {}; on one host the program starts its ranks "
                    "itself and needs neither",
                    mine.launcher == "by hand" ? "by hand" : "by " + mine.launcher, remedy));
  try {
    return open_mpi(mine);
  } catch (const MachineError& why) {
    throw UserError(fmt::format("ranks started by {} cannot meet through MPI: {}; mend that, or set {}", mine.launcher,
                                why.what(), remedy));
  }
}

}  // namespace rehearsal::launch
