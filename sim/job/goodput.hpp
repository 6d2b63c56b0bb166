// How long a run lasts on machines that fail, in seconds of the clock for seconds of useful work.
//
// A run is a sequence of cycles: useful work for an interval, then a checkpoint, which stops training for `stall` and
// is safe after `save` (asynchronous checkpoints are written while training goes on: save > stall). A failure takes the
// run back to the newest safe checkpoint, after `down` seconds, in which further failures begin `down` anew.
#pragma once
#include <cstdint>

namespace rehearsal::job {

struct Cycle {
  double work = 0;      // useful seconds in all
  double interval = 0;  // useful seconds between two checkpoints
  double stall = 0, save = 0;
  double down = 0;      // from a failure until training goes on: detection, restart, reading the checkpoint
  double failures = 0;  // a second, of the whole job; exponential
};

// Expected seconds until the work is done and saved. Exact where failures are exponential and spares never run out;
// with save = stall it is Daly's sum (Future Generation Computer Systems 22 (2006), eq. 13) over whole intervals.
// infinity where it overflows.
double expected(const Cycle& cycle);

// The interval with the least `expected` of a run of many cycles, not below the time that a checkpoint takes to be
// safe; Daly's optimum where save = stall. The work itself where nothing fails.
double best_interval(const Cycle& cycle);

// Seconds of the clock a useful second of a run without an end, at the best of all intervals: synchronous checkpoints
// never let a run take less (sim/design/whole-runs.md).
double best_rate(const Cycle& cycle);

// Young's first-order optimum, sqrt(2 stall / failures) (CACM 17 (1974) 530).
double young_interval(const Cycle& cycle);

// What the closed form leaves out.
struct Fleet {
  std::int64_t nodes = 1;
  double node_rate = 0;  // failures of a node a second
  std::int64_t group_nodes = 0;
  double group_rate = 0;  // failures of a group of nodes a second
  double slow_rate = 0;   // of a node, to become slow
  double slowdown = 1, notice = 0;
  double restart = 0;  // without detection: of a stop that was planned
  double repair = 0;
  std::int64_t spares = -1;  // nodes; below 0: never short
  // Without a spare: replicas that go on, and how many of them a lost node takes along; 0: the job waits.
  std::int64_t replicas = 0;
  double replicas_per_node = 1;
};

struct Simulated {
  int runs = 0;
  double mean = 0, error = 0;  // seconds of the clock, and the standard error of the mean
  double p5 = 0, p50 = 0, p95 = 0;
  double failures = 0;          // of nodes and groups that stopped the run, mean
  double lost = 0;              // useful seconds that were done again, mean
  double waited = 0;            // seconds for repairs, mean
  double slow = 0, shrunk = 0;  // seconds with a slow node, and with fewer replicas, mean
};

// A run that takes so many times its work is given up: it trains less than a hundredth of the time.
inline constexpr double kHopeless = 100;

// Runs with the failures of these seeds; same seed, same result. `cycle.failures` is not used: the fleet's rates are.
Simulated simulate(const Cycle& cycle, const Fleet& fleet, std::uint64_t seed, int runs);

// Failures of the whole job a second.
double failures_of(const Fleet& fleet);

}  // namespace rehearsal::job
