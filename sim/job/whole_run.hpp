// Combines a step and a job into a run: days, GPU-hours, cost, energy, carbon, and the share of time spent training.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/goodput.hpp"
#include "job/job.hpp"

namespace rehearsal::job {

// One step of the job on its machine.
struct Step {
  double seconds = 0;                // wall-clock
  std::optional<double> low, high;   // error band of `seconds`, 1 = as predicted
  double sequences = 0, tokens = 0;  // per step
  std::int64_t gpus = 0, nodes = 0, gpus_per_node = 1, replicas = 1;
  std::int64_t server_gpus = 0;  // on nodes of parameter servers: paid for, but not training
  double gpu_watts = 0;          // power limit per GPU; 0: unknown
  double state_bytes = 0;        // one copy of parameters and optimizer states
  double to_host = 0;            // bytes/s that a GPU copies to its host; 0: unknown
  double to_peer = 0;            // and sends to another node; 0: unknown
  double host_memory = 0;        // bytes, of a node; 0: unknown
  double forward = 1. / 3;       // share of a step that a forward pass of it takes
  std::vector<Step> phases{};    // a step of each phase of the job, of which only time, band and amounts count
};

// What a phase takes, without failures and stops.
struct PhaseRun {
  double steps = 0, step_seconds = 0;
  double sequences = 0, tokens = 0;  // per step
  double days() const { return steps * step_seconds / 86400; }
};

// Totals for one step time.
struct Totals {
  double days = 0, gpu_hours = 0, goodput = 1;
  std::optional<double> cost, energy_mwh, carbon_t;
  friend bool operator==(const Totals&, const Totals&) = default;
};

// Checkpoints of one kind, where some are nearer than the storage.
struct KeptIn {
  std::string name;  // host, peer or storage
  Scope survives = Scope::group;
  double interval_s = 0, stall_s = 0, save_s = 0, down_s = 0;  // interval 0: none, which is best
  bool best_interval = false;
};

// Failures of one scope, and what they cost.
struct Interruption {
  Scope scope = Scope::node;
  std::string from;               // the tier that the run goes back to
  double failures = 0;            // expected in the whole run
  double lost_s = 0, down_s = 0;  // on average: training that is done again, and the time until it goes on
};

struct WholeRun {
  double steps = 0;
  std::vector<PhaseRun> phases;              // empty: all steps are alike
  bool fits = true;                          // every phase its GPUs, as far as it is known
  double evaluations = 0, evaluation_s = 0;  // how many, and how long one takes
  double stops = 0, stopped_s = 0;           // planned: how many, and how long all take
  Totals expected;
  // Range of each number, with low <= expected <= high: from the step's band, and the 5 and 95 % quantiles of simulated
  // runs.
  std::optional<Totals> low, high;
  std::int64_t spare_gpus = 0;  // also paid for
  std::string currency;
  std::optional<double> deadline_days, budget;
  // With failures:
  double failures = 0;  // mean in the whole run
  double checkpoint_interval_s = 0, checkpoint_bytes = 0, checkpoint_stall_s = 0, checkpoint_save_s = 0, down_s = 0;
  bool best_interval = false;                 // the interval was optimised
  std::optional<double> closed_form_goodput;  // if the closed form holds
  std::optional<Simulated> simulated;
  std::vector<KeptIn> kept;                 // nearest first; empty: in storage alone
  std::vector<Interruption> interruptions;  // empty: as `kept`
  std::vector<std::string> assumptions, warnings;

  std::optional<bool> in_time() const;    // whether the deadline is met
  std::optional<bool> in_budget() const;  // likewise for the budget
};

// Throws UserError: what the job asks needs something that is unknown.
WholeRun whole_run(const Job& job, const Step& step);

}  // namespace rehearsal::job
