// The store in a folder shared by all ranks: one file per key, which appears atomically, in a subfolder named after the
// job. A rank that finds its own mark there refuses, so an earlier job is never mistaken for this one.
#pragma once
#include "launch/store.hpp"

namespace rehearsal::launch {

// Creates missing folders. At the end rank 0 removes the job's folder, unless something failed: then its files help to
// find the cause.
std::unique_ptr<Store> open_folder_store(const StoreAddress& address, const RankEnvironment& mine, Time patience);

}  // namespace rehearsal::launch
