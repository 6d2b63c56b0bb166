// A whole training: how many steps, at what price, on machines that fail. What a scenario says of it (`job`), typed.
// Durations are seconds; a year has 365 days.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/fields.hpp"
#include "base/units.hpp"

namespace rehearsal::job {

// What the machine draws, as a mean over the run.
struct Supply {
  std::optional<Power> gpu;  // each; absent: the limit of the GPU
  Power node{2000};          // each, besides its GPUs: processors, memory, NICs, fans
  double pue = 1.2;          // of the building: all that it draws over what its computers draw
};

// Nodes fail one by one, in groups (what hangs on one rack, switch or power supply), or become slow.
struct Failures {
  double per_1000_node_days = 0;  // that stop the job
  Duration detect{300};           // until it is seen
  Duration restart{600};          // until all ranks are there again; reading the checkpoint comes on top
  Duration repair{6 * 3600};      // until a node that failed is back among the spares
  std::int64_t group_nodes = 0;   // that fail together; 0: none do
  double group_per_1000_days = 0;
  double slow_per_1000_node_days = 0;  // nodes that become slow and hold the others up
  double slowdown = 1.1;               // of a step, while one is slow
  Duration notice{6 * 3600};           // until a slow node is replaced: a checkpoint, and a restart
  bool shrink = false;                 // without a spare: with fewer replicas, instead of waiting
};

struct Checkpoint {
  std::optional<Duration> interval;  // of training between two; absent: the best
  std::optional<Bytes> bytes;        // of one; absent: parameters and optimizer states
  Bandwidth rate{100e9};             // of the storage, from all ranks together
  bool async = false;                // ranks copy to their hosts, and the hosts write while training goes on
  std::optional<Duration> stall;     // how long one stops the training; absent: from bytes and rates
};

struct Job {
  std::optional<Count> tokens, steps, samples;  // one of them: how much is trained
  std::optional<Duration> deadline;
  std::optional<Count> budget;     // in `currency`
  std::optional<double> gpu_hour;  // price of a GPU for an hour, in `currency`
  std::string currency;
  Supply power;
  std::optional<CarbonIntensity> carbon;
  std::optional<Failures> failures;  // absent: nothing fails
  Checkpoint checkpoint;
  std::optional<std::int64_t> spares;  // nodes; absent: as many as are needed
  std::uint64_t seed = 0;
};

const fields::Description& job_fields();

}  // namespace rehearsal::job
