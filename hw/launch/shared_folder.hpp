// The bootstrap of ranks that a folder is all they share: one file per text, which appears atomically, in a subfolder
// named after the job. A rank that finds its own mark there refuses, so an earlier job is never mistaken for this one.
#pragma once
#include <filesystem>
#include <memory>

#include "launch/bootstrap.hpp"

namespace rehearsal::launch {

// Creates missing folders. At the end rank 0 removes the job's folder, unless something failed: then its files help to
// find the cause. Calls throw MachineError when patience runs out (it names the ranks that are missing), or another
// rank has failed; a rank that dies is noticed by neither.
std::unique_ptr<Bootstrap> open_shared_folder(const std::filesystem::path& folder, const RankEnvironment& mine,
                                              Time patience);

}  // namespace rehearsal::launch
