// A whole training run: number of steps, price, and failures of its machines. The typed form of a scenario's `job`.
// Durations are seconds; a year has 365 days.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "base/units.hpp"

namespace rehearsal::job {

// Power draw of the machine, averaged over the run.
struct Supply {
  std::optional<Power> gpu;  // per GPU; absent: the GPU's limit
  Power node{2000};          // per node, besides its GPUs: processors, memory, NICs, fans
  double pue = 1.2;          // of the building: its total power over that of its computers
};

// Nodes fail individually or in groups (sharing a rack, switch or power supply), or become slow.
struct Failures {
  double per_1000_node_days = 0;  // failures that stop the job,
  double process_share = 0;       // of which in this share only processes die: the node and its memory stay
  Duration detect{300};           // from a failure until it is noticed
  Duration restart{600};          // until all ranks run again; reading the checkpoint is extra
  Duration repair{6 * 3600};      // until a failed node is back among the spares
  std::int64_t group_nodes = 0;   // nodes that fail together; 0: no group failures
  double group_per_1000_days = 0;
  double slow_per_1000_node_days = 0;  // nodes that become slow and delay all others
  double slowdown = 1.1;               // factor on the step while a node is slow
  Duration notice{6 * 3600};           // until a slow node is replaced, which costs a checkpoint and a restart
  bool shrink = false;                 // without a spare: continue with fewer replicas instead of waiting
};

// Checkpoints in the memory of hosts, beside those in storage: copied there by every GPU.
struct MemoryCheckpoint {
  std::optional<Duration> interval;  // training time between checkpoints; absent: the optimum
  std::optional<Bandwidth> rate;     // of one GPU; absent: of its link to its host, or of its share of the NICs
  bool async = false;                // GPUs copy to their hosts, which send while training continues
  std::optional<Duration> stall;     // how long a checkpoint stops training; absent: from bytes and rates
  std::optional<Duration> restart;   // until all ranks run again; absent: as after any failure
  bool apart = false;                // the copy is on a node that does not fail together with this one
};

struct Checkpoint {
  std::optional<Duration> interval;            // training time between checkpoints; absent: the optimum
  std::optional<Bytes> bytes;                  // per checkpoint; absent: parameters and optimizer states
  Bandwidth rate{100e9};                       // of the storage, for all ranks together
  bool async = false;                          // ranks copy to their hosts, which write while training continues
  std::optional<Duration> stall;               // how long a checkpoint stops training; absent: from bytes and rates
  std::optional<MemoryCheckpoint> host, peer;  // in memory of the own node, and of another one
};

// A part of the training with a step of its own: as large a part as one of the first four says, or what the others
// leave.
struct Phase {
  std::optional<Count> tokens{}, steps{}, samples{};
  std::optional<double> share{};  // of the job's
  std::string scenario{};         // the digest of what its steps are
};

// Megatron-LM's --rampup-batch-size: batches of `from`, `from` + `by`, ... sequences, each for an equal part of
// `samples`, until that of the scenario.
struct Ramp {
  std::int64_t from = 1, by = 1;
  Count samples{};
};

struct Evaluation {
  std::int64_t every = 1;          // steps
  std::optional<Duration> time{};  // of one; absent: by `steps`
  double steps = 0;                // forward passes of so many steps
};

// A planned stop, for maintenance: nothing trains and nothing is lost.
struct Stop {
  Duration time{};                      // from the last step before to the first one after
  std::optional<Duration> every{};      // from one to the next,
  std::optional<std::int64_t> times{};  // or how many in all
};

struct Job {
  std::optional<Count> tokens, steps, samples;  // one of them: the amount of training
  std::vector<Phase> phases;                    // in order; empty: all steps are alike
  std::optional<Ramp> ramp;                     // before them; read as phases, which come first
  std::optional<Evaluation> evaluation;
  std::vector<Stop> stops;
  std::optional<Duration> deadline;
  std::optional<Count> budget;     // in `currency`
  std::optional<double> gpu_hour;  // per GPU and hour, in `currency`
  std::string currency;
  Supply power;
  std::optional<CarbonIntensity> carbon;
  std::optional<Failures> failures;  // absent: no failures
  Checkpoint checkpoint;
  std::optional<std::int64_t> spares;  // nodes; absent: as many as needed
  std::uint64_t seed = 0;
};

const fields::Description& job_fields();
const fields::Description& phase_fields();

}  // namespace rehearsal::job
