// `rehearse calibrate`: measures this machine, or its GPU (calibrate_gpu.hpp), and writes the profile.
#pragma once
#include "cli/performer.hpp"

namespace rehearsal::perform {

// `arguments`: of the command, which ranks that are processes run again.
int calibrate(const cli::Calibration& options, const cli::Arguments& arguments, const cli::CommonOptions& common);

}  // namespace rehearsal::perform
