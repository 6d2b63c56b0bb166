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
constexpr double kNearly = .01;      // share of a job by which its phases, each of whole steps, may miss it
constexpr double kMostCycles = 1e6;  // of all simulated runs together, to limit the time of an answer

double whole(double steps) { return std::max(1., std::ceil(steps - 1e-9)); }

// Steps of one kind that an amount of training takes; nothing where none is said.
template <class Amount>
std::optional<double> steps_of(const Amount& amount, const Step& step) {
  if (amount.steps) return whole(amount.steps->value());
  if (amount.samples) return whole(amount.samples->value() / step.sequences);
  if (amount.tokens) return whole(amount.tokens->value() / step.tokens);
  return std::nullopt;
}

// The steps of each phase. That which says no amount takes what the others leave of the job's.
std::vector<double> steps_of_phases(const Job& job, const std::vector<Step>& phases) {
  std::vector<double> all;
  const auto of_job = [&](const Step& step) {  // in steps of this kind
    return job.steps     ? job.steps->value()
           : job.samples ? job.samples->value() / step.sequences
                         : job.tokens->value() / step.tokens;
  };
  const auto each = [&](const Step& step) { return 1 / of_job(step); };  // the share of the job that one step does
  double left = 1;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    auto steps = steps_of(job.phases[i], phases[i]);
    if (const auto share = job.phases[i].share) steps = whole(*share * of_job(phases[i]));
    if (!steps) rest = i;
    all.push_back(steps.value_or(0));
    if (job.steps || job.samples || job.tokens) left -= all.back() * each(phases[i]);
  }
  const bool whole_job = job.steps || job.samples || job.tokens;
  if (!rest && whole_job && std::abs(left) > kNearly)
    throw UserError(
        fmt::format("'job.phases' are {:.1f} % of what the job trains; let one say no amount, which takes what the "
                    "others leave, or leave out that of the job",
                    100 * (1 - left)));
  if (!rest) return all;
  if (left <= 0)
    throw UserError(
        fmt::format("'job.phases': the others take all that the job trains, and leave nothing to phase {}", *rest + 1));
  all[*rest] = whole(left * of_job(phases[*rest]));
  return all;
}

// The step that stands for those of all phases: as long as their mean.
Step mean_of(const Job& job, const Step& step, std::vector<PhaseRun>& phases) {
  Step mean = step;
  if (step.phases.empty()) return mean;
  const auto steps = steps_of_phases(job, step.phases);
  double all = 0, seconds = 0, low = 0, high = 0, sequences = 0, tokens = 0;
  bool banded = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& one = step.phases[i];
    phases.push_back({steps[i], one.seconds, one.sequences, one.tokens});
    const double takes = steps[i] * one.seconds;
    all += steps[i], seconds += takes;
    sequences += steps[i] * one.sequences, tokens += steps[i] * one.tokens;
    banded = banded && one.low && one.high;
    low += takes * one.low.value_or(1), high += takes * one.high.value_or(1);
  }
  mean.seconds = seconds / all, mean.sequences = sequences / all, mean.tokens = tokens / all;
  mean.low = banded ? std::optional(low / seconds) : std::nullopt;
  mean.high = banded ? std::optional(high / seconds) : std::nullopt;
  return mean;
}

class Maker {
 public:
  Maker(const Job& job, const Step& step) : job_(job), step_(mean_of(job, step, run_.phases)) {}

  WholeRun make() {
    const double useful = begin();
    run_.currency = job_.currency;
    if (job_.deadline) run_.deadline_days = job_.deadline->value() / kDay;
    if (job_.budget) run_.budget = job_.budget->value();
    if (!job_.failures) {
      stopped_in(useful + evaluating());
      const auto at = [&](double factor) { return totals(useful * factor + evaluating(), useful * factor); };
      run_.expected = at(1);
      if (step_.low) run_.low = at(*step_.low);
      if (step_.high) run_.high = at(*step_.high);
      return std::move(run_);
    }
    checkpoint();
    const auto expected = at(1, Ask::runs);
    run_.expected = totals(expected.mean, useful);
    stopped_in(expected.mean);
    run_.simulated = expected.runs;
    run_.closed_form_goodput = expected.closed ? std::optional(useful / expected.mean) : std::nullopt;
    run_.failures = expected.runs.failures;
    interruptions();
    ends(useful);
    if (job_.failures->slow_per_1000_node_days > 0 && job_.failures->slowdown == 1)
      run_.warnings.emplace_back(
          "'job.failures.slow.slowdown' is 1: nodes that become slow cost a restart and nothing else");
    return std::move(run_);
  }

  // Only the expected totals.
  Totals expected() {
    const double useful = begin();
    if (!job_.failures) return totals(useful + evaluating(), useful);
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
    if (!never_short() || !cycle_.nearer.empty()) return 1;
    const double rate = best_rate(cycle_);
    return std::isfinite(rate) ? std::max(1., rate * (1 - 1e-9)) : 1;
  }
  Totals least(double rate) {
    const double useful = begin();
    return totals((useful + evaluating()) * rate, useful);
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
    if (run_.phases.empty()) run_.steps = steps_of(job_, step_).value();
    for (const auto& phase : run_.phases) run_.steps += phase.steps;
    evaluations();
    run_.spare_gpus = job_.spares.value_or(0) * step_.gpus_per_node;
    watts();
    return run_.steps * step_.seconds;
  }
  void evaluations() {
    if (!job_.evaluation) return;
    const auto& e = *job_.evaluation;
    run_.evaluations = std::floor(run_.steps / double(e.every));
    run_.evaluation_s = e.time ? e.time->value() : e.steps * step_.seconds * step_.forward;
    if (!e.time)
      run_.assumptions.push_back(fmt::format(
          "job: a forward pass of an evaluation takes {:.0f} % of a step, by its FLOPs.", 100 * step_.forward));
  }
  double evaluating() const { return run_.evaluations * run_.evaluation_s; }

  // Planned stops beside so many seconds of a run. `every` is from the begin of one to that of the next.
  struct Stopped {
    double count = 0, seconds = 0;
  };
  Stopped stops_in(double clock) const {
    Stopped all;
    for (const auto& stop : job_.stops) {
      const double count =
          stop.times ? double(*stop.times) : std::floor(clock / (stop.every->value() - stop.time.value()));
      all.count += count, all.seconds += count * stop.time.value();
    }
    return all;
  }
  void stopped_in(double clock) {
    const auto stopped = stops_in(clock);
    run_.stops = stopped.count, run_.stopped_s = stopped.seconds;
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

  // `clock`: without planned stops.
  Totals totals(double clock, double useful) const {
    Totals t;
    clock += stops_in(clock).seconds;
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

  struct Written {
    double stall = 0, save = 0;
  };
  // A checkpoint that takes so long to be written.
  Written written(double seconds, bool async, const std::optional<Duration>& stall, const char* key) const {
    if (!async) {
      const double stops = stall ? stall->value() : seconds;
      return {stops, stops};
    }
    if (!stall && step_.to_host <= 0)
      throw UserError(
          fmt::format("'{}.async' needs the rate of copies to the host, which the cluster does not say; give "
                      "{}.stall, or cluster.host.pcie",
                      key, key));
    const double stops = stall ? stall->value() : run_.checkpoint_bytes / double(step_.gpus) / step_.to_host;
    return {stops, std::max(stops, seconds)};
  }

  // A tier in the memory of hosts: each GPU copies its share, and reads it back.
  void in_memory(const MemoryCheckpoint& tier, const char* name, Scope survives, double link, double failures) {
    const auto key = fmt::format("job.checkpoint.{}", name);
    const double rate = tier.rate ? tier.rate->value() : link;
    if (rate <= 0)
      throw UserError(fmt::format("'{}' needs a rate, which the cluster does not say; give {}.rate", key, key));
    const auto& f = *job_.failures;
    const double copy = run_.checkpoint_bytes / double(step_.gpus) / rate;
    const auto saved = written(copy, tier.async, tier.stall, key.c_str());
    const double restart = (tier.restart ? *tier.restart : f.restart).value();
    const double interval = tier.interval ? tier.interval->value() : 0;
    const double down = f.detect.value() + restart + copy;
    cycle_.nearer.push_back({interval, saved.stall, saved.save, down, survives, failures});
    run_.kept.push_back({name, survives, interval, saved.stall, saved.save, down, !tier.interval});
    if (failures <= 0)
      run_.warnings.push_back(fmt::format("'{}' is never used, whatever its 'rate', 'stall' and 'restart': {}", key,
                                          survives == Scope::process
                                              ? "no failure leaves a node as it is; see job.failures.process_share"
                                              : "no node fails"));
  }
  void in_memory() {
    const auto& c = job_.checkpoint;
    const auto rates = failures_by_scope(fleet_);
    double failures = rates[0];
    if (c.host) in_memory(*c.host, "host", Scope::process, step_.to_host, failures), failures = 0;
    if (c.peer && step_.nodes < 2) throw UserError("'job.checkpoint.peer' needs another node, and the job has one");
    if (c.peer) {
      failures += rates[1] + (c.peer->apart ? rates[2] : 0);
      in_memory(*c.peer, "peer", c.peer->apart ? Scope::group : Scope::node, step_.to_peer, failures);
    }
    cycle_.interval = c.interval ? c.interval->value() : 0;
    const auto asked = cycle_.nearer;
    cycle_ = with_intervals(cycle_, step_.seconds);
    double needed = cycle_.failures;  // those that only the storage survives; without any, it is never best to write
    for (const auto& tier : cycle_.nearer) needed -= tier.failures;
    run_.best_interval = run_.best_interval && needed > 1e-9 * cycle_.failures;
    run_.kept.push_back(
        {"storage", Scope::group, cycle_.interval, cycle_.stall, cycle_.save, cycle_.down, run_.best_interval});
    for (auto& kept : run_.kept) {
      const auto same = [&](const NearTier& tier) { return tier.survives == kept.survives; };
      const auto tier = std::find_if(cycle_.nearer.begin(), cycle_.nearer.end(), same);
      if (&kept == &run_.kept.back()) continue;
      kept.interval_s = tier == cycle_.nearer.end() ? 0 : tier->interval;
      if (kept.interval_s <= 0 &&
          std::any_of(asked.begin(), asked.end(), [&](const auto& one) { return same(one) && one.failures > 0; }))
        run_.warnings.push_back(fmt::format(
            "'job.checkpoint.{}' keeps no checkpoints, which is best: with its 'rate', 'stall' and 'restart' "
            "they would cost more than they save",
            kept.name));
    }
    // One complete checkpoint and one that is being written, in each memory.
    const double held = 2 * double(cycle_.nearer.size()) * run_.checkpoint_bytes / double(step_.nodes);
    if (step_.host_memory > 0 && held > step_.host_memory)
      run_.warnings.push_back(
          fmt::format("'job.checkpoint': two checkpoints of each tier take {} of the {} of memory of a node",
                      decimal(held, "B"), decimal(step_.host_memory, "B")));
  }
  void interruptions() {
    if (run_.kept.empty()) return;
    const auto rates = failures_by_scope(fleet_);
    for (std::size_t s = 0; s < kScopes; ++s) {
      if (rates[s] <= 0) continue;
      const auto scope = Scope(s);
      std::size_t tier = 0;
      while (tier < cycle_.nearer.size() && cycle_.nearer[tier].survives < scope) ++tier;
      const auto from = std::find_if(run_.kept.begin(), run_.kept.end(),
                                     [&](const KeptIn& kept) { return kept.interval_s > 0 && kept.survives >= scope; });
      const double happen = run_.failures * rates[s] / cycle_.failures;
      run_.interruptions.push_back({scope, from->name, happen, lost_work(cycle_, tier), from->down_s});
    }
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
    fleet_.node_rate = f.per_1000_node_days * per_second, fleet_.process_share = f.process_share;
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
    const auto saved = written(storage, c.async, c.stall, "job.checkpoint");
    cycle_.stall = saved.stall, cycle_.save = saved.save;
    fleet_.restart = f.restart.value() + storage;
    cycle_.down = f.detect.value() + fleet_.restart;
    cycle_.failures = failures_of(fleet_);
    cycle_.work = run_.steps * step_.seconds + evaluating();  // an evaluation that fails is done again, as a step is
    // Rounded to whole steps.
    run_.best_interval = !c.interval;
    if (c.host || c.peer) {
      in_memory();
    } else {
      const double interval = c.interval ? c.interval->value() : best_interval(cycle_);
      cycle_.interval = std::max(1., std::round(interval / step_.seconds)) * step_.seconds;
    }
    if (cycle_.interval + cycle_.stall < cycle_.save)
      run_.warnings.push_back(
          fmt::format("'job.checkpoint.interval' {}: a checkpoint takes {} to be written, so the next waits for it",
                      show(Duration(cycle_.interval)), show(Duration(cycle_.save))));
    if (cycle_.nearer.empty()) cycle_.interval = std::min(cycle_.interval, cycle_.work);
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
    cycle.work += (factor - 1) * run_.steps * step_.seconds, cycle.interval *= factor;
    for (auto& tier : cycle.nearer) tier.interval *= factor;
    Length length;
    const double closed = job::expected(cycle);
    if (!(closed < kHopeless * cycle.work)) hopeless(cycle);
    if (ask == Ask::mean && never_short()) return {closed, true, {}};
    const double cycles =
        std::ceil(cycle.work / (cycle.nearer.empty() ? cycle.interval : cycle.nearer.front().interval));
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
  WholeRun run_;
  const Step step_;
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
