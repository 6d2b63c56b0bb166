#include "job/whole_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/decimal.hpp"
#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "job/throughput_model.hpp"

namespace rehearsal::job {
namespace {

constexpr double kHour = 3600, kDay = 86400;
constexpr double kFewestRuns = 50, kMostRuns = 400;
constexpr double kMostEvents = 1e6;  // per run
constexpr double kMostCycles = 1e6;  // of all simulated runs together, to limit the time of an answer

double steps_of(const Job& job, const Step& step) {
  const auto whole = [](double x) { return std::max(1., std::ceil(x - 1e-9)); };
  if (job.steps) return whole(job.steps->value());
  if (job.samples) return whole(job.samples->value() / step.sequences);
  return whole(job.tokens->value() / step.tokens);
}

class Maker {
 public:
  Maker(const Job& job, const Step& step) : job_(job), step_(step) {}

  WholeRun make() {
    const double useful = begin();
    run_.currency = job_.currency;
    if (job_.deadline) run_.deadline_days = job_.deadline->value() / kDay;
    if (job_.budget) run_.budget = job_.budget->value();
    if (!job_.failures) {
      run_.expected = totals(useful, useful);
      if (step_.low) run_.low = totals(useful * *step_.low, useful * *step_.low);
      if (step_.high) run_.high = totals(useful * *step_.high, useful * *step_.high);
      return std::move(run_);
    }
    checkpoint();
    const auto expected = at(1, Ask::runs);
    run_.expected = totals(expected.mean, useful);
    run_.simulated = expected.runs;
    run_.closed_form_goodput = expected.closed ? std::optional(useful / expected.mean) : std::nullopt;
    run_.failures = expected.runs.failures;
    ends(useful);
    if (job_.failures->slow_per_1000_node_days > 0 && job_.failures->slowdown == 1)
      run_.warnings.emplace_back(
          "'job.failures.slow.slowdown' is 1: nodes that become slow cost a restart and nothing else");
    return std::move(run_);
  }

  // Only the expected totals.
  Totals expected() {
    const double useful = begin();
    if (!job_.failures) return totals(useful, useful);
    checkpoint();
    return totals(at(1, Ask::mean).mean, useful);
  }

  // Lower bound of wall-clock seconds per useful second. In every run each useful second is done at full speed or
  // slower. Where the closed form certainly holds, intervals of arbitrary length are at least as good as whole steps:
  // with synchronous checkpoints each takes one(w, w) for w useful seconds; the minimum over w is the bound.
  double least_rate() {
    begin();
    if (!job_.failures) return 1;
    checkpoint();
    if (!never_short()) return 1;
    const double rate = best_rate(cycle_);
    return std::isfinite(rate) ? std::max(1., rate * (1 - 1e-9)) : 1;
  }
  Totals least(double rate) {
    const double useful = begin();
    return totals(useful * rate, useful);
  }

 private:
  struct Length {
    double mean = 0;
    bool closed = false;  // exact, by the closed form
    Simulated runs;
  };
  enum class Ask : std::uint8_t { mean, runs };

  // Returns the useful seconds.
  double begin() {
    if (step_.server_gpus > 0)
      run_.assumptions.push_back(fmt::format(
          "job: the {} GPUs of the nodes with parameter servers are paid for and draw power as the others do.",
          step_.server_gpus));
    run_.steps = steps_of(job_, step_);
    run_.spare_gpus = job_.spares.value_or(0) * step_.gpus_per_node;
    watts();
    return run_.steps * step_.seconds;
  }
  // Never waits, shrinks or slows down.
  bool never_short() const { return fleet_.slow_rate <= 0 && fleet_.spares < 0; }

  void watts() {
    if (job_.power.gpu)
      watts_ = job_.power.gpu->value();
    else if (step_.gpu_watts > 0)
      watts_ = step_.gpu_watts;
    if (!watts_) {
      if (job_.carbon)
        throw UserError("'job.carbon' needs what a GPU draws, which its file does not say; give job.power.gpu");
      return;
    }
    run_.assumptions.push_back(fmt::format(
        "job: a GPU draws {:.0f} W{}, a node {:.0f} W besides, and the building {:.2f} times all of it, all the time.",
        *watts_, job_.power.gpu ? "" : ", its limit", job_.power.node.value(), job_.power.pue));
  }

  Totals totals(double clock, double useful) const {
    Totals t;
    t.days = clock / kDay, t.goodput = useful / clock;
    const double gpus = double(step_.gpus + step_.server_gpus + run_.spare_gpus),
                 nodes = double(step_.nodes + job_.spares.value_or(0));
    t.gpu_hours = gpus * clock / kHour;
    if (job_.gpu_hour) t.cost = t.gpu_hours * *job_.gpu_hour;
    if (watts_) {
      t.energy_mwh = (gpus * *watts_ + nodes * job_.power.node.value()) * job_.power.pue * clock / kHour * 1e-6;
      if (job_.carbon) t.carbon_t = *t.energy_mwh * job_.carbon->value();
    }
    return t;
  }

  // Range of each number: the 5 and 95 % quantiles of the runs at either end of the step's band, extended to include
  // the mean, which lies outside if failures are rare. Goodput has a range of its own: it does not rise and fall with
  // the time.
  void ends(double useful) {
    Totals low = run_.expected, high = low;
    double least = low.goodput, most = least;
    const auto include = [&](double clock, double trains) {
      const Totals t = totals(clock, trains);
      least = std::min(least, t.goodput), most = std::max(most, t.goodput);
      if (t.days < low.days) low = t;
      if (t.days > high.days) high = t;
    };
    for (const double factor : {step_.low.value_or(1), step_.high.value_or(1)}) {
      const auto runs = at(factor, Ask::runs).runs;
      include(runs.p5, useful * factor), include(runs.p95, useful * factor);
    }
    low.goodput = least, high.goodput = most;
    run_.low = low, run_.high = high;
  }

  // Duration and interval of checkpoints.
  void checkpoint() {
    const auto& c = job_.checkpoint;
    const auto& f = *job_.failures;
    if (f.group_nodes > step_.nodes)
      throw UserError(
          fmt::format("'job.failures.group.nodes' is {}, and the job has {} nodes", f.group_nodes, step_.nodes));
    fleet_.nodes = step_.nodes, fleet_.spares = job_.spares.value_or(-1);
    const double per_second = 1e-3 / kDay;
    fleet_.node_rate = f.per_1000_node_days * per_second;
    fleet_.group_nodes = f.group_nodes, fleet_.group_rate = f.group_nodes > 0 ? f.group_per_1000_days * per_second : 0;
    fleet_.slow_rate = f.slow_per_1000_node_days * per_second;
    fleet_.slowdown = f.slowdown, fleet_.notice = f.notice.value(), fleet_.repair = f.repair.value();
    if (f.shrink && step_.replicas > 1) {
      fleet_.replicas = step_.replicas;
      fleet_.replicas_per_node =
          std::max(1., double(step_.replicas) * double(step_.gpus_per_node) / double(step_.gpus));
    } else if (f.shrink) {
      run_.warnings.emplace_back("'job.failures.without_spare' shrink changes nothing: there is one replica");
    }
    const double size = run_.checkpoint_bytes = c.bytes ? double(c.bytes->count()) : step_.state_bytes;
    const double storage = size / c.rate.value();
    cycle_.save = storage;
    cycle_.stall = storage;
    if (c.async) {
      if (!c.stall && step_.to_host <= 0)
        throw UserError(
            "'job.checkpoint.async' needs the rate of copies to the host, which the cluster does not say; give "
            "job.checkpoint.stall, or cluster.host.pcie");
      cycle_.stall = c.stall ? c.stall->value() : size / double(step_.gpus) / step_.to_host;
      cycle_.save = std::max(cycle_.stall, storage);
    } else if (c.stall) {
      cycle_.stall = cycle_.save = c.stall->value();
    }
    fleet_.restart = f.restart.value() + storage;
    cycle_.down = f.detect.value() + fleet_.restart;
    cycle_.failures = failures_of(fleet_);
    cycle_.work = run_.steps * step_.seconds;
    // Rounded to whole steps.
    double interval = c.interval ? c.interval->value() : best_interval(cycle_);
    run_.best_interval = !c.interval;
    interval = std::max(1., std::round(interval / step_.seconds)) * step_.seconds;
    if (interval + cycle_.stall < cycle_.save)
      run_.warnings.push_back(
          fmt::format("'job.checkpoint.interval' {}: a checkpoint takes {} to be written, so the next waits for it",
                      show(Duration(interval)), show(Duration(cycle_.save))));
    cycle_.interval = std::min(interval, cycle_.work);
    run_.checkpoint_interval_s = cycle_.interval, run_.checkpoint_stall_s = cycle_.stall;
    run_.checkpoint_save_s = cycle_.save, run_.down_s = cycle_.down;
    run_.assumptions.push_back(
        fmt::format("job: failures come independently at constant rates; a checkpoint of {} goes to a storage of {}.",
                    decimal(size, "B"), decimal(c.rate.value(), "B/s")));
    if (!job_.spares)
      run_.assumptions.emplace_back(
          "job: there is always a spare node, which is not paid for (job.spares says otherwise).");
  }

  // With the step time multiplied by `factor`.
  Length at(double factor, Ask ask) const {
    Cycle cycle = cycle_;
    cycle.work *= factor, cycle.interval *= factor;
    Length length;
    const double closed = job::expected(cycle);
    if (!(closed < kHopeless * cycle.work)) hopeless(cycle);
    if (ask == Ask::mean && never_short()) return {closed, true, {}};
    const double cycles = std::ceil(cycle.work / cycle.interval);
    too_many(closed);
    const int runs = static_cast<int>(std::clamp(kMostCycles / cycles, kFewestRuns, kMostRuns));
    length.runs = simulate(cycle, fleet_, job_.seed, runs);
    length.closed = fleet_.slow_rate <= 0 && length.runs.waited <= 0 && length.runs.shrunk <= 0;
    length.mean = length.closed ? closed : length.runs.mean;
    if (length.runs.p95 >= kHopeless * cycle.work) hopeless(cycle);
    return length;
  }

  // A run of this length is simulated event by event. A slow node stops it once it is noticed.
  void too_many(double length) const {
    const double slow = double(fleet_.nodes) * fleet_.slow_rate;
    const double stops = slow > 0 ? length / (1 / slow + fleet_.notice) : 0;
    const double events = length * cycle_.failures + stops;
    if (events > kMostEvents)
      throw UserError(
          fmt::format("'job.failures': about {:.2g} failures and slow nodes in a run are more than the {:g} that are "
                      "simulated; lower the rates, or give the nodes that are slow a longer 'notice'",
                      events, kMostEvents));
  }

  [[noreturn]] static void hopeless(const Cycle& cycle) {
    throw UserError(
        fmt::format("the job trains less than {:.0f} % of the time: it fails every {} and is down for {} after each "
                    "failure; lower job.failures, or give more spares or faster restarts",
                    100 / kHopeless, show(Duration(1 / cycle.failures)), show(Duration(cycle.down))));
  }

  const Job& job_;
  const Step& step_;
  WholeRun run_;
  std::optional<double> watts_;
  Cycle cycle_;
  Fleet fleet_;
};

std::optional<bool> within(std::optional<double> value, std::optional<double> limit) {
  return value && limit ? std::optional(*value <= *limit) : std::nullopt;
}

}  // namespace

std::optional<bool> WholeRun::in_time() const { return within(expected.days, deadline_days); }
std::optional<bool> WholeRun::in_budget() const { return within(expected.cost, budget); }

WholeRun whole_run(const Job& job, const Step& step) { return Maker(job, step).make(); }

ThroughputModel::ThroughputModel(const Job& job, const Step& step) : job_(job), step_(step) {
  const Step one = at(1, 1);
  rate_ = Maker(job_, one).least_rate();
}

Step ThroughputModel::at(double seconds, std::int64_t replicas) const {
  Step step = step_;
  step.seconds = seconds, step.replicas = replicas, step.low = step.high = std::nullopt;
  return step;
}

Totals ThroughputModel::expected(double seconds, std::int64_t replicas) const {
  const Step step = at(seconds, replicas);
  return Maker(job_, step).expected();
}

Totals ThroughputModel::least(double seconds) const {
  const Step step = at(seconds, 1);
  return Maker(job_, step).least(rate_);
}

}  // namespace rehearsal::job
