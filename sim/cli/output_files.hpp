// Checks output files before any work is done, so that a mistyped name loses nothing.
#pragma once
#include <string>
#include <vector>

#include "cli/output.hpp"

namespace rehearsal::cli {

// A file that a command writes besides its report; an empty path = not requested.
struct SideOutput {
  std::string option;  // "--trace"
  std::string path;
};

// Throws UserError for a file that cannot be written, for two outputs (including the report) in one file or on standard
// output, and for an output that is one of `inputs`. Pipes and devices may be shared.
void check_outputs(const CommonOptions& common, const std::vector<SideOutput>& more,
                   const std::vector<std::string>& inputs);

}  // namespace rehearsal::cli
