// MPI in this process: initialised once and finalised once, but not finalised after an error.
#pragma once
#include <mpi.h>

#include <exception>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "launch/heartbeat.hpp"

namespace rehearsal::mpi {

// Throws MachineError with MPI's own words unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

class Environment {
 public:
  // Throws MachineError when MPI was used before in this process: it cannot be started again.
  Environment();
  // Finalises MPI, which waits for all ranks; after an error the launcher must end them instead.
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  std::size_t rank() const { return static_cast<std::size_t>(rank_); }
  std::size_t ranks() const { return static_cast<std::size_t>(ranks_); }
  std::size_t ranks_here() const { return static_cast<std::size_t>(ranks_here_); }  // on this host
  bool one_host() const { return ranks_here_ == ranks_; }
  launch::Heartbeat& presence() { return presence_; }
  bool failed() const { return failed_; }

  // Runs `work`; reports an exception to the parent first, and then does not use MPI any more.
  template <class Work>
  auto guarded(Work&& work) {
    try {
      return work();
    } catch (...) {
      failed_ = true;
      presence_.report(std::current_exception());
      throw;
    }
  }

 private:
  launch::Heartbeat presence_;
  int rank_ = 0, ranks_ = 1, ranks_here_ = 1;
  bool failed_ = false;
};

// The bytes of all ranks at rank 0, in rank order; empty elsewhere. Any length.
std::vector<std::string> gather(const Environment& environment, const std::string& bytes);
// The texts of all ranks at every rank, in rank order; all of equal length.
std::vector<std::string> gather_everywhere(const Environment& environment, const std::string& text);

}  // namespace rehearsal::mpi
