// A rank that needs no MPI, from start to end: its identity, its parent if it has one, and the store where it meets the
// others. Independent of who started it: this program, torchrun, mpirun, srun or a shell.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/heartbeat.hpp"
#include "launch/rank_environment.hpp"
#include "launch/store.hpp"

namespace rehearsal::launch {

class RankProcess {
 public:
  // Ranks of a cluster may start minutes apart.
  inline static const Time kPatience = seconds(300);

  // For a process that is a rank; the first call of store() opens the store. Throws UserError as membership() does.
  explicit RankProcess(Time patience = kPatience);

  const RankEnvironment& membership() const { return membership_; }
  Heartbeat& presence() { return presence_; }
  Store& store();  // throws as store_address() and open_store() do

  // Runs `work`; reports an exception to the parent and all other ranks before passing it on.
  template <class Work>
  auto guarded(Work&& work) {
    try {
      return std::forward<Work>(work)();
    } catch (...) {
      report(std::current_exception());
      throw;
    }
  }

  // Sends the result, of any length, to the process that collects results: the parent, or rank 0 of a job without one,
  // which gets all results in rank order; empty elsewhere. All ranks must call it.
  std::vector<std::string> publish(const std::string& result);

 private:
  void report(std::exception_ptr error) noexcept;

  const RankEnvironment membership_;
  const Time patience_;
  Heartbeat presence_{Launchers::any};
  std::unique_ptr<Store> store_;  // destroyed, and so left, while the heartbeat still runs
};

}  // namespace rehearsal::launch
