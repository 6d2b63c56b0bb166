// The duration of a run on machines that fail: wall-clock seconds for seconds of useful work.
//
// A run is a sequence of cycles: useful work for an interval, then a checkpoint, which stops training for `stall` and
// is safe after `save` (asynchronous checkpoints are written while training continues: save > stall). A failure returns
// the run to the newest safe checkpoint after `down` seconds; another failure in that time restarts `down`.
//
// Checkpoints may also be kept nearer than the storage, in the memory of hosts: these are quick and survive less. A
// failure returns the run to the newest checkpoint that survives it.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace rehearsal::job {

// What fails at once: the processes of a node, while its memory stays; a node; a group of nodes.
enum class Scope : std::uint8_t { process, node, group };
inline constexpr std::size_t kScopes = 3;

// Checkpoints that are kept nearer than the storage.
struct NearTier {
  double interval = 0;  // useful seconds; 0: not chosen yet
  double stall = 0, save = 0, down = 0;
  Scope survives = Scope::process;
  double failures = 0;  // per second: those that this tier survives, and no nearer one
};

struct Cycle {
  double work = 0;      // useful seconds in total
  double interval = 0;  // useful seconds between checkpoints
  double stall = 0, save = 0;
  double down = 0;      // from a failure until training continues: detection, restart, reading the checkpoint
  double failures = 0;  // per second, of the whole job; exponential
  // Nearest first. Each interval is a multiple of the nearer one's, and the storage's of the last. A checkpoint of a
  // tier is one of all nearer tiers, too.
  std::vector<NearTier> nearer{};
};

// Expected seconds until the work is done and saved. Exact for exponential failures if spares never run out;
// with save = stall it is Daly's sum (Future Generation Computer Systems 22 (2006), eq. 13) over whole intervals.
// Infinity if it overflows. With nearer tiers: sim/design/whole-runs.md.
double expected(const Cycle& cycle);
double expected_in_tiers(const Cycle& cycle);  // the same, by pieces of the nearest tier

// The interval that minimises `expected` for a run of many cycles, at least as long as a checkpoint needs to become
// safe; Daly's optimum if save = stall. Without failures, the whole work.
double best_interval(const Cycle& cycle);

// Wall-clock seconds per useful second of an endless run, at the optimal interval: with synchronous checkpoints
// no run is faster (sim/design/whole-runs.md).
double best_rate(const Cycle& cycle);

// With nearer tiers: the cycle with intervals of whole `steps` seconds, where those that are 0 (of the storage: too)
// are chosen. Tiers whose checkpoints cost more than they save are left out, unless their interval was given.
Cycle with_intervals(const Cycle& cycle, double step);

// Useful seconds that a failure takes back on average: one that the tier of this number survives and no nearer one;
// the storage is the last.
double lost_work(const Cycle& cycle, std::size_t tier);

// Young's first-order optimum, sqrt(2 stall / failures) (CACM 17 (1974) 530).
double young_interval(const Cycle& cycle);

// The effects that the closed form leaves out.
struct Fleet {
  std::int64_t nodes = 1;
  double node_rate = 0;      // failures of one node per second,
  double process_share = 0;  // of which only processes die in this share
  std::int64_t group_nodes = 0;
  double group_rate = 0;  // failures of one group of nodes per second
  double slow_rate = 0;   // per node and second
  double slowdown = 1, notice = 0;
  double restart = 0;  // of a planned stop, without detection
  double repair = 0;
  std::int64_t spares = -1;  // nodes; below 0: unlimited
  // Without a spare: replicas that continue, and how many of them a lost node removes; 0: the job waits.
  std::int64_t replicas = 0;
  double replicas_per_node = 1;
};

struct Simulated {
  int runs = 0;
  double mean = 0, error = 0;  // wall-clock seconds, and the standard error of the mean
  double p5 = 0, p50 = 0, p95 = 0;
  double failures = 0;          // of nodes and groups, that stopped the run; mean
  double lost = 0;              // useful seconds that were repeated, mean
  double waited = 0;            // seconds spent waiting for repairs, mean
  double slow = 0, shrunk = 0;  // seconds with a slow node, and with fewer replicas, mean
};

// A run is abandoned when it takes this multiple of its work: it trains less than a hundredth of the time.
inline constexpr double kHopeless = 100;

// Simulates runs with random failures; the seed determines the result. Uses the fleet's rates, not `cycle.failures`.
Simulated simulate(const Cycle& cycle, const Fleet& fleet, std::uint64_t seed, int runs);

// Failures per second of the whole job, and of each scope.
double failures_of(const Fleet& fleet);
std::array<double, kScopes> failures_by_scope(const Fleet& fleet);

}  // namespace rehearsal::job
