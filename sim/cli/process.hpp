// The session of the command line: this process's disk, standard streams, terminal and Ctrl-C.
#pragma once
#include <memory>

#include "cli/session.hpp"

namespace rehearsal::cli {

// One at a time: signals belong to the process.
std::unique_ptr<Session> process_session();

}  // namespace rehearsal::cli
