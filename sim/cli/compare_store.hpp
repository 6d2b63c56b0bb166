// The table of `compare` out of what a sweep has kept. Apart from the command, which also answers where no SQLite is.
#pragma once
#include <string>

#include "cli/table_options.hpp"

namespace rehearsal::cli {

// Whether a file that `compare` is given is a store and no scenario.
bool is_store(const std::string& path);

// Writes the rows of this version that are there; throws UserError where there are none. Returns the exit status.
int show_store(const std::string& path, const TableOptions& options, const CommonOptions& common);

}  // namespace rehearsal::cli
