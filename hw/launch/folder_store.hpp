// The store in a folder that all ranks see: one file per key, which appears whole, in a folder below that bears the
// name of the job. A rank that finds its own trace there refuses, so an earlier job is never mistaken for this one.
#pragma once
#include "launch/store.hpp"

namespace rehearsal::launch {

// Makes folders that are missing. At the end rank 0 removes the one of the job, unless something failed: then a trace
// is worth more than order.
std::unique_ptr<Store> open_folder_store(const StoreAddress& address, const RankEnvironment& mine, Time patience);

}  // namespace rehearsal::launch
