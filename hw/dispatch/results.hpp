// From what each rank recorded to one timeline and one network, for every backend alike.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::dispatch {

struct RankResult {
  std::vector<timeline::Spans> iterations;  // measured ones, indexed by LocalTask; from the common start
  Learned learned;                          // real compute
  std::int64_t involuntary_switches = 0;    // of its thread, during the measured iterations
};

// `ranks` in RankId order. Sends end when their receive saw them arrive. Fills iterations, the median iteration,
// peak_bytes and disturbances (a spread p90/p10 beyond 1.1, ...).
timeline::Timeline assemble(const graph::TaskGraph& graph, std::vector<RankResult> ranks, const std::string& backend,
                            backend::Compute compute);

// Puts every tensor together from its slices and shards, without padding, and compares replicas.
backend::Trained trained(const graph::TaskGraph& graph, const std::vector<RankResult>& ranks);

// Plain bytes, little endian, for results that cross processes; read() throws MachineError when they are cut short.
std::string write(const RankResult& result);
RankResult read(std::string_view bytes);

// SHA-256 over what a rank will do: its program, its place and its connections. Compared before the first launch.
std::string program_digest(const graph::TaskGraph& graph, RankId rank);

}  // namespace rehearsal::dispatch
