// The parent's side of supervision: starts ranks, watches them, and ensures that neither processes nor files remain,
// however the run ends.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/interrupted.hpp"
#include "dispatch/watchdog.hpp"

namespace rehearsal::launch {

using backend::Interrupted;

enum class Starter : std::uint8_t {
  mpirun,  // for ranks that need MPI
  fork     // this process starts each rank itself; they meet through it (launch/star.hpp)
};

struct Job {
  Starter starter = Starter::mpirun;
  std::size_t ranks = 1;
  std::vector<std::uint32_t> nodes = {};  // of each rank; only where hosts are listed (`rehearse hosts`)
  std::vector<std::string> arguments;     // of this program, which every rank runs again
  Time timeout = seconds(60);             // longest time without progress of any rank
  // Describes a hang from the positions of all ranks.
  std::function<std::string(const std::vector<dispatch::Positions>&)> hang_report;
  std::function<void(int ended)> progress = {};  // backend::RunOptions
};

// Results of all ranks, in rank order. Throws MachineError (no mpirun, a rank that died or gave up, a hang) or
// Interrupted (SIGINT, SIGTERM, SIGHUP). Not for several threads at once.
std::vector<std::string> run_ranks(const Job& job);

}  // namespace rehearsal::launch
