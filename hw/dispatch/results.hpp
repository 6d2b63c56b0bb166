// From what each rank recorded to one timeline and one network, for every backend alike.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "dispatch/usage.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::dispatch {

// The end of a send in RankResult, where the sender does not learn of the arrival.
inline constexpr Time kSeenByReceiver{INT64_MAX};

struct RankResult {
  std::vector<timeline::Spans> iterations;  // measured ones, indexed by LocalTask; from the common start
  Learned learned;                          // real compute
  Usage used;                               // during the measured iterations
  bool raised_priority = false;
};

// `ranks` in RankId order. Sends end when their receive saw them arrive. Fills iterations, the median iteration,
// peak_bytes and disturbances; `engine` is the backend's to say. `on_cores`: the ranks compute on this machine's
// processor, so other programs that use it disturb them.
timeline::Timeline assemble(const graph::TaskGraph& graph, std::vector<RankResult> ranks, const std::string& backend,
                            backend::Compute compute, bool on_cores = true);

// What disturbed a run, as sentences; empty when nothing was noticed.
struct Circumstances {
  std::vector<Time> lengths;      // of the measured iterations
  Time wall = {};                 // all of them with what lay between
  Time others = {}, stolen = {};  // processor time of other programs and of the hypervisor meanwhile
  Time own = {};                  // of all ranks
  unsigned cores = 1;
  std::size_t computing_ranks = 0;  // with real compute: those that want a core each
  bool ordinary_priority = false;   // real compute that had to wait its turn
  Time waited = {};                 // of the rank that was longest without a processor while it could have computed
};
std::vector<std::string> disturbances(const Circumstances& around);

// Puts every tensor together from its slices and shards, without padding, and compares replicas. Originals give the
// values, copies of a tied embedding are compared with them.
backend::TrainingResult trained(const graph::TaskGraph& graph, const std::vector<RankResult>& ranks);

// Plain bytes, little endian, for results that cross processes; read() throws MachineError when they are cut short.
std::string write(const RankResult& result);
RankResult read(std::string_view bytes);

// `digests` of the whole graph (TaskGraph::digest) as each process has it, in rank order, compared before the first
// launch. Throws MachineError that names the ranks which differ from rank 0.
void compare_digests(std::span<const std::string> digests);

}  // namespace rehearsal::dispatch
