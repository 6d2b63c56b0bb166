// `compare` from the results of a sweep. Separate from the command, which also works in builds without SQLite.
#pragma once
#include <string>

#include "cli/table_options.hpp"

namespace rehearsal::cli {

// Whether a file given to `compare` is a store rather than a scenario.
bool is_store(const std::string& path);

// Writes the stored rows of this version; throws UserError if there are none. Returns the exit status.
int show_store(const std::string& path, const TableOptions& options, const CommonOptions& common);

}  // namespace rehearsal::cli
