// How many threads a command may use.
#pragma once
#include <string>

namespace rehearsal::cli {

// The value of --jobs; one per core where it is empty. Throws UserError.
unsigned number_of_jobs(const std::string& text);

}  // namespace rehearsal::cli
