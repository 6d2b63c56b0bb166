// A rank that is a process, from start to end: its identity, its parent if it has one, and how it reaches the other
// ranks. Independent of who started it: this program, torchrun, mpirun, srun or a shell.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch/bootstrap.hpp"
#include "launch/heartbeat.hpp"
#include "launch/rank_environment.hpp"

namespace rehearsal::launch {

class RankProcess {
 public:
  using Open = std::function<std::unique_ptr<Bootstrap>(const RankEnvironment&)>;

  // For a process that is a rank. Throws UserError as membership() does.
  RankProcess();
  RankProcess(Launchers launchers, Open open);

  const RankEnvironment& membership() const { return membership_; }
  Heartbeat& presence() { return presence_; }
  Bootstrap& bootstrap();  // opened by the first call, which throws as open_bootstrap() does

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
  const Open open_;
  Heartbeat presence_;
  std::unique_ptr<Bootstrap> bootstrap_;  // destroyed, and so left, while the heartbeat still runs
};

}  // namespace rehearsal::launch
