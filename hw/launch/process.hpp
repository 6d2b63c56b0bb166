// Child processes with their messages, each in a process group of its own; signals to us arrive as events.
#pragma once
#include <sys/types.h>

#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::launch {

// While it lives, SIGINT, SIGTERM, SIGHUP and SIGCHLD wait to be read instead of acting on the calling thread.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  int descriptor() const { return descriptor_; }
  const sigset_t& before() const { return before_; }
  // The next one that asks this process to end, if one has come.
  std::optional<int> ending();

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

class Process {
 public:
  // Throws MachineError. Reads nothing, writes nowhere; its stderr is kept (the last 64 KiB).
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const std::vector<std::string>& environment, HeldSignals& signals);
  ~Process();  // ends it with its group if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Until something happens (it ended, it spoke, a signal came), at most `patience`.
  void wait(Time patience);
  bool ended();
  // Asks it to end, and insists after three seconds.
  void end();
  pid_t pid() const { return pid_; }
  int status() const { return status_; }  // as from waitpid, once ended
  const std::string& said() const { return said_; }

 private:
  friend void wait(std::span<Process* const> some, HeldSignals& signals, Time patience);
  friend void end(std::span<Process* const> some);
  void listen();

  HeldSignals& signals_;
  pid_t pid_ = -1;
  int messages_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::string said_;
};

// The same for several at once: what one of them does ends the wait, and all share the three seconds.
void wait(std::span<Process* const> some, HeldSignals& signals, Time patience);
void end(std::span<Process* const> some);

}  // namespace rehearsal::launch
