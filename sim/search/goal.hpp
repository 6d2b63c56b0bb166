// What a search is for: by what layouts are ordered, and what the training of which `job` tells must keep to.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.hpp"
#include "job/throughput_model.hpp"
#include "scenario/plan_file.hpp"

namespace rehearsal::search {

struct Goal {
  enum class Order : std::uint8_t { time, gpus, cost, days };
  Order order = Order::time;
  std::optional<double> deadline_days, budget;

  bool limited() const { return deadline_days || budget; }
  bool asks_job() const { return limited() || order == Order::cost || order == Order::days; }
  bool in_time(const job::Totals& run) const { return !deadline_days || run.days <= *deadline_days; }
  bool in_budget(const job::Totals& run) const { return !budget || (run.cost && *run.cost <= *budget); }
  bool met_by(const std::optional<job::Totals>& run) const {
    return !limited() || (run && in_time(*run) && in_budget(*run));
  }
};
Goal goal_of(const scenario::PlanSpace& space);

// Days, GPU-hours and money of the job on each size of the cluster; nothing where the file has no job.
class Runs {
 public:
  // Throws UserError: what the job asks is unknown.
  explicit Runs(const scenario::PlanFile& file);

  // Of steps of so many seconds, without what works take from each other. Throws UserError where it hardly trains.
  std::optional<job::Totals> expected(std::size_t size, double step_seconds, std::int64_t replicas) const;
  // Of an iteration that is known from below. A step that trains takes no less.
  std::optional<job::Totals> least(std::size_t size, Time iteration) const;

 private:
  std::vector<job::ThroughputModel> paces_;  // empty without a job
};

// By what layouts are ordered, the least first; of those of which little is known each part from below.
struct Key {
  std::int64_t gpus = 0;  // where the fewest are wanted
  double worth = 0;       // money or days, where they are
  Time time;              // of the iteration
  friend bool operator<(const Key& a, const Key& b) {
    if (a.gpus != b.gpus) return a.gpus < b.gpus;
    if (a.worth != b.worth) return a.worth < b.worth;
    return a.time < b.time;
  }
};
// `run`: of that time.
Key key_of(const Goal& goal, std::int64_t gpus, Time time, const std::optional<job::Totals>& run);
// By which share of it a value may be above the optimum, which is not below `bound`.
double gap(const Key& value, const Key& bound);

}  // namespace rehearsal::search
