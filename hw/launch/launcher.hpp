// How the processes of a job are started, and what is known when one died. All that the supervisor
// (launch/supervise.hpp) knows of mpirun.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/process.hpp"
#include "launch/run_folder.hpp"

namespace rehearsal::launch {

class Launcher {
 public:
  virtual ~Launcher() = default;  // ends all ranks
  virtual std::string name() const = 0;
  // Waits for an event, at most `patience`.
  virtual void wait(Time patience) = 0;
  // Whether all ranks have ended. A rank that fails ends the others too.
  virtual bool ended() = 0;
  virtual void end() = 0;
  // " on node2", where it was said on which host a rank starts.
  virtual std::string on_host(std::size_t rank) const { return static_cast<void>(rank), ""; }
  // Hosts that have not answered, as the end of a sentence; empty where that is not known.
  virtual std::string silent_hosts() const { return ""; }
  // Once ended: which rank died first and how, in one sentence; nothing when no rank is to blame.
  virtual std::optional<std::string> who_died() = 0;
  // Once ended: the launcher's own failure in one sentence.
  virtual std::optional<std::string> failure() = 0;
  // The end of what ranks and launcher wrote to stderr, as the end of a sentence; empty when there was nothing.
  virtual std::string said() = 0;
};

// What every launcher needs. References must outlive the launcher.
struct Start {
  std::size_t ranks;
  const std::vector<std::uint32_t>& nodes;    // of each rank; empty: unknown
  const std::vector<std::string>& arguments;  // of this program
  const RunFolder& folder;
  const Board& board;
  HeldSignals& signals;
};
std::unique_ptr<Launcher> start_with_mpirun(const Start& start);
std::unique_ptr<Launcher> start_by_fork(const Start& start);

// Path of the mpirun that this program was built with, or the first in PATH. Throws MachineError when there is none.
std::string find_mpirun();

// --- for launchers -------------------------------------------------------------------------------------------------

// The environment of this process, to be passed to a child.
class ChildEnvironment {
 public:
  explicit ChildEnvironment(const Start& start);  // with the variables of rank_environment.hpp that all ranks share
  void set(const std::string& name, const std::string& value);
  void suggest(const std::string& name, const std::string& value);  // does not overwrite what the user has set
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::vector<std::string> entries_;
};

// The path of this program.
std::string this_program();

// "; it said:" followed by the end of it.
std::string quoted(const std::string& said);

}  // namespace rehearsal::launch
