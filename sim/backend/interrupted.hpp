// Thrown by a run, besides errors.
#pragma once
#include <string>

namespace rehearsal::backend {

// A signal asked this process to end while ranks were running; the ranks and their files have been cleaned up.
// The program says so and ends with status 128 + signal.
struct Interrupted {
  int signal;
  std::string ended;  // "3 ranks were ended"
};

}  // namespace rehearsal::backend
