// A rank that needs no MPI, from its start to its end: who it is, its parent if it has one, and the store where it
// meets the others. Works the same whoever started it: this program, torchrun, mpirun, srun or a shell.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/rank_environment.hpp"
#include "launch/heartbeat.hpp"
#include "launch/store.hpp"

namespace rehearsal::launch {

class RankProcess {
 public:
  // Ranks of a cluster may start minutes apart.
  inline static const Time kPatience = seconds(300);

  // For a process that is a rank; the store is opened by the first who asks for it. Throws UserError, see membership().
  explicit RankProcess(Time patience = kPatience);

  const RankEnvironment& membership() const { return membership_; }
  Heartbeat& presence() { return presence_; }
  Store& store();  // throws what store_address() and open_store() throw

  // Runs `work`; what it throws is shown to the parent and to all other ranks first.
  template <class Work>
  auto guarded(Work&& work) {
    try {
      return std::forward<Work>(work)();
    } catch (...) {
      report(std::current_exception());
      throw;
    }
  }

  // To whoever puts the results together: the parent, or rank 0 of a job without one, which gets everybody's in rank
  // order; empty elsewhere. To be called by all ranks; any length.
  std::vector<std::string> publish(const std::string& result);

 private:
  void report(std::exception_ptr error) noexcept;

  const RankEnvironment membership_;
  const Time patience_;
  Heartbeat presence_{Launchers::any};
  std::unique_ptr<Store> store_;  // takes leave while the presence still watches
};

}  // namespace rehearsal::launch
