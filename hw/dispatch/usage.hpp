// Who used the machine while something was measured, and going before others meanwhile.
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "base/units.hpp"

namespace rehearsal::dispatch {

// Processor time, so far or over a window. Of the machine: all programs together, to a hundredth of a second; 0 where
// the system does not tell.
struct Usage {
  Time own;      // the calling thread
  Time machine;  // everybody's
  Time stolen;   // taken by the hypervisor from under this machine
  Time waited;   // the calling thread, ready to run, for a processor that others had
};
Usage usage();
Usage operator-(const Usage& after, const Usage& before);

// While it lives, this thread and those it starts go before ordinary ones, where the system permits that. Linux shares
// processors between sessions first and by niceness within them (sched(7), autogroups), so among the programs of others
// it takes the session's niceness; `own_session`: nobody else's programs are in it.
class RaisedPriority {
 public:
  explicit RaisedPriority(bool own_session = false);
  ~RaisedPriority();
  RaisedPriority(const RaisedPriority&) = delete;
  RaisedPriority& operator=(const RaisedPriority&) = delete;
  bool granted() const { return granted_; }

 private:
  int before_ = 0;
  bool granted_ = false;
};

// Raised while real compute is timed; nothing otherwise.
std::unique_ptr<RaisedPriority> raised_for(const backend::RunOptions& options, bool own_session = false);

}  // namespace rehearsal::dispatch
