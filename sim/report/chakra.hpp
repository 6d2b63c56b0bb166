// The task graph as Chakra execution traces (interchange/chakra.hpp), which ASTRA-sim runs: a file for each rank, and
// the groups of ranks that collectives name. Kernels carry the time that was predicted for them alone; collectives and
// messages carry their bytes, so that another simulator prices the network.
#pragma once
#include <cstdint>
#include <string>

#include "answer/lowered_job.hpp"
#include "report/perfetto.hpp"

namespace rehearsal::report {

// One rank: length-delimited messages, GlobalMetadata and then a Node for each task, whose id is the task's place in
// its rank. Node.data_deps are the tasks that it waits for in its rank, the one before it on its lane included.
// duration_micros is rounded; the attribute duration_ps (uint64) is exact. comm_size is that of nccl-tests: the whole
// array.
void write_chakra(const answer::LoweredJob& job, std::size_t rank, const Sink& sink);

// {"0": [ranks], ...}: what Node attribute pg_name names, in ASTRA-sim's form of communicator groups.
std::string chakra_groups(const answer::LoweredJob& job);

}  // namespace rehearsal::report
