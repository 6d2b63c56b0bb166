// A step and a job make a run: days, GPU-hours, money, energy, carbon, and how much of the time trains.
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
  double seconds = 0;                // the clock
  std::optional<double> low, high;   // of `seconds`, 1 = as predicted: its error band
  double sequences = 0, tokens = 0;  // that it trains
  std::int64_t gpus = 0, nodes = 0, gpus_per_node = 1, replicas = 1;
  std::int64_t server_gpus = 0;  // of the nodes of parameter servers: there and paid for, but they train nothing
  double gpu_watts = 0;          // the limit of a GPU; 0: unknown
  double state_bytes = 0;        // parameters and optimizer states, once
  double to_host = 0;            // bytes a second that a GPU copies to its host; 0: unknown
};

// At one speed of the step.
struct Totals {
  double days = 0, gpu_hours = 0, goodput = 1;
  std::optional<double> cost, energy_mwh, carbon_t;
  friend bool operator==(const Totals&, const Totals&) = default;
};

struct WholeRun {
  double steps = 0;
  Totals expected;
  // Least and most of each number, so that low <= expected <= high: by the step's band, and 5 and 95 % of the runs that
  // were simulated.
  std::optional<Totals> low, high;
  std::int64_t spare_gpus = 0;  // that are paid for too
  std::string currency;
  std::optional<double> deadline_days, budget;
  // Where something fails.
  double failures = 0;  // in the whole run, mean
  double checkpoint_interval_s = 0, checkpoint_bytes = 0, checkpoint_stall_s = 0, checkpoint_save_s = 0, down_s = 0;
  bool best_interval = false;                 // it was chosen
  std::optional<double> closed_form_goodput;  // where the closed form holds
  std::optional<Simulated> simulated;
  std::vector<std::string> assumptions, warnings;

  std::optional<bool> in_time() const;    // of the deadline
  std::optional<bool> in_budget() const;  // likewise
};

// Throws UserError: what the job asks needs something that is unknown.
WholeRun whole_run(const Job& job, const Step& step);

}  // namespace rehearsal::job
