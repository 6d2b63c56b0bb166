// Combines what each rank recorded into one timeline and one trained network, the same for every backend.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "dispatch/usage.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::dispatch {

// The end of a send in a RankResult when the sender does not learn of the arrival.
inline constexpr Time kSeenByReceiver{INT64_MAX};

struct RankResult {
  std::vector<timeline::Spans> iterations;  // the measured ones, indexed by LocalTask; times from the common start
  Learned learned;                          // real compute
  Usage used;                               // during the measured iterations
  bool raised_priority = false;
  Time clock_error;  // of this rank's clock against that of rank 0; none on one host
};

// `ranks` in RankId order. A send ends when its receive saw the data arrive. Fills iterations, the median iteration,
// peak_bytes and disturbances; the backend fills `engine`. `on_cores`: ranks compute on this machine's CPU, so that
// other programs disturb them.
timeline::Timeline assemble(const graph::TaskGraph& graph, std::vector<RankResult> ranks, const std::string& backend,
                            backend::Compute compute, bool on_cores = true);

// What disturbed a run, as sentences; empty when nothing was noticed.
struct Circumstances {
  std::vector<Time> lengths;      // of the measured iterations
  Time wall = {};                 // from the first to the last, with the gaps between them
  Time others = {}, stolen = {};  // processor time of other programs and of the hypervisor meanwhile
  Time own = {};                  // of all ranks
  unsigned cores = 1;
  std::size_t computing_ranks = 0;  // with real compute: ranks that need a core each
  bool ordinary_priority = false;   // real compute ran without raised priority
  Time waited = {};                 // longest time for which a runnable rank waited for a core
};
std::vector<std::string> disturbances(const Circumstances& around);

// Assembles every tensor from its slices and shards, without padding, and compares replicas. The originals give the
// values; copies of a tied embedding are only compared with them.
backend::TrainingResult trained(const graph::TaskGraph& graph, const std::vector<RankResult>& ranks);

// Plain bytes, little endian, for results that cross processes; read() throws MachineError when they are cut short.
std::string write(const RankResult& result);
RankResult read(std::string_view bytes);

// `digests`: TaskGraph::digest of the whole graph as each process has it, in rank order, compared before the first
// launch. Throws MachineError that names the ranks that differ from rank 0.
void compare_digests(std::span<const std::string> digests);

}  // namespace rehearsal::dispatch
