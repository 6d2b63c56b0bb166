// What a run throws besides errors.
#pragma once

namespace rehearsal::backend {

// A signal that asked this process to end while ranks were running; they are gone, and so is what they kept in files.
// The program ends with status 128 + signal.
struct Interrupted {
  int signal;
};

}  // namespace rehearsal::backend
