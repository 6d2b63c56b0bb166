// The objective of a search: how layouts are ordered, and the limits of the training run that `job` describes.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.hpp"
#include "job/throughput_model.hpp"
#include "scenario/plan_file.hpp"

namespace rehearsal::search {

struct Goal {
  enum class Order : std::uint8_t { time, gpus, cost, energy, days };
  Order order = Order::time;
  std::optional<double> deadline_days, budget;

  bool limited() const { return deadline_days || budget; }
  bool of_run() const { return order == Order::cost || order == Order::energy; }
  // What of a run is minimised; nothing: its steps or its GPUs.
  std::optional<double> worth(const job::Totals& run) const {
    return order == Order::cost     ? run.cost
           : order == Order::energy ? run.energy_mwh
           : order == Order::days   ? std::optional(run.days)
                                    : std::nullopt;
  }
  bool in_time(const job::Totals& run) const { return !deadline_days || run.days <= *deadline_days; }
  bool in_budget(const job::Totals& run) const { return !budget || (run.cost && *run.cost <= *budget); }
  bool met_by(const std::optional<job::Totals>& run) const {
    return !limited() || (run && in_time(*run) && in_budget(*run));
  }
};
Goal goal_of(const scenario::PlanSpace& space);

// Days, GPU-hours and cost of the job on each size of the cluster; nothing if the file has no job.
class Runs {
 public:
  // Throws UserError if a request of the job cannot be computed.
  explicit Runs(const scenario::PlanFile& file);

  // For steps of this length, without contention. Throws UserError if the job makes hardly any progress.
  std::optional<job::Totals> expected(std::size_t size, double step_seconds, std::int64_t replicas) const;
  // For a lower bound of the iteration. A training step takes at least as long.
  std::optional<job::Totals> least(std::size_t size, Time iteration) const;

 private:
  std::vector<job::ThroughputModel> paces_;  // empty without a job
};

// The sort key of layouts, smallest first; a lower bound in each component while a layout is not fully evaluated.
struct Key {
  std::int64_t gpus = 0;  // if GPUs are to be minimised
  double worth = 0;       // cost, energy or days, if these are to be minimised
  Time time;              // of the iteration
  friend bool operator<(const Key& a, const Key& b) {
    if (a.gpus != b.gpus) return a.gpus < b.gpus;
    if (a.worth != b.worth) return a.worth < b.worth;
    return a.time < b.time;
  }
};
// `run`: the totals for that time.
Key key_of(const Goal& goal, std::int64_t gpus, Time time, const std::optional<job::Totals>& run);
// The share of `value` by which it may exceed the optimum, which is not below `bound`.
double gap(const Key& value, const Key& bound);

}  // namespace rehearsal::search
