// Child processes with their stderr, each in a process group of its own; signals to this process arrive as events.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::launch {

// During its lifetime SIGINT, SIGTERM, SIGHUP and SIGCHLD are queued for reading and do not act on the calling thread.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  int descriptor() const { return descriptor_; }
  const sigset_t& before() const { return before_; }
  // The next queued signal that asks this process to end, if any.
  std::optional<int> ending();

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

class Process {
 public:
  // Starts it; throws MachineError. It has no stdin or stdout, and inherits one descriptor of this process at most; the
  // last 64 KiB of its stderr are kept.
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const std::vector<std::string>& environment, HeldSignals& signals, std::optional<int> inherited = {});
  ~Process();  // kills it with its group if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits for an event (it ended, it wrote, a signal came), at most `patience`.
  void wait(Time patience);
  bool ended();
  // Asks it to end, and kills it after three seconds.
  void end();
  pid_t pid() const { return pid_; }
  int status() const { return status_; }  // as from waitpid, once ended
  const std::string& said() const { return said_; }

 private:
  friend void wait(std::span<Process* const> some, HeldSignals& signals, Time patience, std::vector<pollfd> others);
  friend void end(std::span<Process* const> some);
  void listen();

  HeldSignals& signals_;
  pid_t pid_ = -1;
  int messages_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::string said_;
};

// The same for several processes: an event of any of them, or of `others`, ends the wait, and all share the three
// seconds.
void wait(std::span<Process* const> some, HeldSignals& signals, Time patience, std::vector<pollfd> others = {});
void end(std::span<Process* const> some);

}  // namespace rehearsal::launch
