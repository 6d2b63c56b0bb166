// Thrown by a run, besides errors.
#pragma once

namespace rehearsal::backend {

// A signal asked this process to end while ranks were running; the ranks and their files have been cleaned up.
// The program ends with status 128 + signal.
struct Interrupted {
  int signal;
};

}  // namespace rehearsal::backend
