// What ranks tell each other before and after the work: ids of communicators, digests, results. Not for use within a
// measurement (sim/design/starting-ranks.md).
//
// All ranks make the same calls in the same order, each from one thread. `name` says in an error what was waited for.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "launch/rank_environment.hpp"

namespace rehearsal::launch {

class Bootstrap {
 public:
  Bootstrap(std::size_t rank, std::size_t size) : rank_(rank), size_(size) {}
  virtual ~Bootstrap() = default;  // leaves: the other ranks may continue without this one
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

  // The bytes of all ranks at rank 0, in rank order; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& name, std::string_view bytes) = 0;
  // The bytes of rank 0; `bytes` of others are ignored.
  virtual std::string broadcast(const std::string& name, std::string_view bytes) = 0;
  std::vector<std::string> gather_everywhere(const std::string& name, std::string_view bytes);
  // Returns when all have called it.
  void barrier(const std::string& name) { gather_everywhere(name, {}); }

  // This rank gives up. A parent or mpirun then ends the others; where nobody does, they are told.
  virtual void fail(const std::string& message) noexcept = 0;
  // MachineError when this rank was told of the failure of another: cheap enough for a waiting loop.
  virtual void throw_if_failed() {}

 private:
  const std::size_t rank_, size_;
};

// Through the parent that started this rank, where there is one (launch/star.hpp); else in the folder that
// kRendezvousVariable names (launch/shared_folder.hpp); else, for ranks of mpirun and srun, through the MPI module.
// `patience`: of ranks in a folder; those of a cluster may start minutes apart. Throws UserError that says what to set
// when there is none of the three.
std::unique_ptr<Bootstrap> open_bootstrap(const RankEnvironment& mine, const Variables& variables = environment(),
                                          Time patience = seconds(300));

// The entry of the MPI module for the last of these: returns a Bootstrap.
inline constexpr const char* kBootstrapEntry = "rehearsal_bootstrap";

}  // namespace rehearsal::launch
