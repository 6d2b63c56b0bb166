// Who used the processor during a measurement, and how to get priority over other programs meanwhile.
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "base/units.hpp"

namespace rehearsal::dispatch {

// Processor time, so far or over a window. For the machine: of all programs together, to a hundredth of a second; 0
// where the system does not report it.
struct Usage {
  Time own;      // the calling thread
  Time machine;  // all programs
  Time stolen;   // taken from this machine by the hypervisor
  Time waited;   // for which the calling thread was runnable but had no processor
};
Usage usage();
Usage operator-(const Usage& after, const Usage& before);

// During its lifetime this thread and the threads it starts have priority, where the system permits that. Linux shares
// processors between sessions first and by niceness within a session (sched(7), autogroups), so priority over other
// programs needs the session's niceness; `own_session`: the session contains no programs of others.
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

// Raised priority while real compute is timed; null otherwise.
std::unique_ptr<RaisedPriority> raised_for(const backend::RunOptions& options, bool own_session = false);

}  // namespace rehearsal::dispatch
