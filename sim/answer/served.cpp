#include "answer/served.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "engine/sim.hpp"
#include "lower/delayed.hpp"

namespace rehearsal::answer {
namespace {

using graph::EndpointKind;
using graph::Lane;
using graph::Pass;

constexpr std::uint64_t kMostDelayedTasks = 20'000'000;  // some gigabytes

// The times of the events in each iteration of one worker.
struct Worker {
  std::size_t rank = 0;
  std::int64_t count = 1;  // workers that this one stands for
  // By iteration: first and last computation of its passes; the last pull; its gradients added to the last part of the
  // parameters; the first part of its pull read by a server.
  std::vector<Time> begun, computed, pulled, applied, read;
};

class Iterations {
 public:
  Iterations(const LoweredJob& lowered, const lower::Consecutive& several, const timeline::Timeline& all, std::size_t n)
      : one_(lowered.graph), several_(several), all_(all), n_(n) {
    for (std::size_t r = 0; r < one_.ranks().size(); r++)
      if (lower::is_worker(one_.program_of(one_.ranks()[r]))) workers_.push_back(watched(r));
  }
  const std::vector<Worker>& workers() const { return workers_; }

  Time start(std::size_t rank, std::size_t k, std::size_t task) const { return all_.start[place(rank, k, task)]; }
  Time end(std::size_t rank, std::size_t k, std::size_t task) const { return all_.end[place(rank, k, task)]; }

 private:
  std::size_t place(std::size_t rank, std::size_t k, std::size_t task) const {
    const auto& r = one_.ranks()[rank];
    const std::size_t n = one_.program_of(r).size();
    return several_.graph.ranks()[rank].first_task + several_.at[r.program.index()][k * n + task].value;
  }

  Worker watched(std::size_t r) const {
    const auto& rank = one_.ranks()[r];
    const auto& program = one_.program_of(rank);
    Worker w{r, rank.multiplicity, {}, {}, {}, {}, {}};
    std::set<std::pair<std::size_t, std::uint32_t>> servers;  // with the server's endpoint that sends to this worker
    for (std::size_t e = 0; e < program.endpoints.size(); e++)
      if (program.endpoints[e] == EndpointKind::receive)
        servers.emplace(rank.attachments[e].peer.index(), rank.attachments[e].peer_endpoint.value);
    for (std::size_t k = 0; k < n_; k++) {
      Time begun{INT64_MAX}, computed, pulled, applied, read{INT64_MAX};
      for (std::size_t i = 0; i < program.size(); i++) {
        if (program.lane[i] == Lane::receive) pulled = std::max(pulled, end(r, k, i));
        if (program.lane[i] != Lane::compute || program.coordinates[i].pass == Pass::optimizer) continue;
        begun = std::min(begun, start(r, k, i)), computed = std::max(computed, end(r, k, i));
      }
      for (const auto& [server, endpoint] : servers) {
        const auto& theirs = one_.program_of(one_.ranks()[server]);
        for (std::size_t i = theirs.size(); i-- > 0;) {
          if (theirs.lane[i] != Lane::compute) continue;
          applied = std::max(applied, end(server, k, i));
          break;
        }
        const auto first = theirs.endpoint_tasks[endpoint].front().index();
        read = std::min(read, start(server, k, first));
      }
      w.begun.push_back(begun), w.computed.push_back(computed), w.pulled.push_back(pulled);
      w.applied.push_back(applied), w.read.push_back(read);
    }
    return w;
  }

  const graph::TaskGraph& one_;
  const lower::Consecutive& several_;
  const timeline::Timeline& all_;
  std::size_t n_;
  std::vector<Worker> workers_;
};

// Per worker, the iterations that are far from the first and from the last iteration of any worker.
struct Steady {
  std::vector<std::size_t> from, to;  // by worker; `from` < `to`
};

Steady steady(const std::vector<Worker>& workers, const plan::DataParallel& data) {
  const std::size_t n = workers.front().applied.size();
  Steady all;
  if (!data.unbounded()) {
    const auto delay = static_cast<std::size_t>(data.delay);
    all.from.assign(workers.size(), n / 3), all.to.assign(workers.size(), n - 2 - delay);
    return all;
  }
  Time first, last{INT64_MAX};  // from the second iteration of the slowest worker to the end of the fastest
  for (const auto& w : workers) first = std::max(first, w.applied[1]), last = std::min(last, w.applied[n - 1]);
  for (const auto& w : workers) {
    std::size_t from = 1, to = n - 1;
    while (from + 2 < n && w.applied[from] < first) ++from;
    while (to > from + 1 && w.applied[to] > last) --to;
    all.from.push_back(from), all.to.push_back(to);
  }
  return all;
}

struct Staleness {
  double sum = 0, samples = 0;
  std::int64_t most = 0;
  void add(double mean, std::int64_t worst, std::int64_t count) {
    sum += mean * double(count), samples += double(count), most = std::max(most, worst);
  }
};

// The number of iterations whose sums a worker had when it began to compute.
std::int64_t version(const Worker& w, std::size_t k, const plan::DataParallel& data) {
  if (data.update == plan::DataParallel::Update::worker) return std::max<std::int64_t>(0, std::int64_t(k) - data.delay);
  return std::upper_bound(w.pulled.begin(), w.pulled.end(), w.begun[k]) - w.pulled.begin();
}

// Updates of other workers between reading and adding; those at the same instant may have come before or after.
void add_pushes(const std::vector<Worker>& workers, std::size_t mine, std::size_t k, Staleness& all) {
  const auto& w = workers[mine];
  const auto had = std::upper_bound(w.pulled.begin(), w.pulled.end(), w.begun[k]) - w.pulled.begin();
  const Time read = had == 0 ? Time{-1} : w.read[static_cast<std::size_t>(had) - 1];
  std::int64_t between = 0, tied = -1;  // itself
  for (const auto& other : workers)
    for (const Time at : other.applied)
      if (at == w.applied[k])
        tied += other.count;
      else if (read < at && at < w.applied[k])
        between += other.count;
  all.add(double(between) + double(tied) / 2, between + tied, w.count);
}

// Versions in use at the same time: `id` is the version, or when it was read.
std::int64_t versions_in_use(const std::vector<Worker>& workers, const Steady& window, const plan::DataParallel& data) {
  struct Change {
    Time at;
    int by;
    std::int64_t id;
  };
  std::vector<Change> changes;
  for (std::size_t i = 0; i < workers.size(); i++)
    for (auto k = window.from[i]; k <= window.to[i]; k++) {
      const auto& w = workers[i];
      const auto had = version(w, k, data);
      const auto id = !data.unbounded() ? had : had == 0 ? -1 : w.read[static_cast<std::size_t>(had) - 1].count();
      changes.push_back({w.begun[k], 1, id}), changes.push_back({w.computed[k], -1, id});
      if (!data.unbounded()) changes.push_back({w.applied[k], 0, std::int64_t(k) + 1});
    }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tuple(a.at, a.by, a.id) < std::tuple(b.at, b.by, b.id);
  });
  std::map<std::int64_t, int> users;
  std::int64_t newest = -1;
  std::size_t most = 1;
  for (const auto& change : changes) {
    if (change.by == 0) newest = change.id;
    if (change.by != 0 && (users[change.id] += change.by) <= 0) users.erase(change.id);
    const bool counted = !data.unbounded() && (newest < 0 || users.count(newest));
    most = std::max(most, users.size() + (counted ? 0 : 1));
  }
  return static_cast<std::int64_t>(most);
}

double steps_per_s(const std::vector<Worker>& workers, const Steady& window) {
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < workers.size(); i++) {
    const auto& w = workers[i];
    const Time took = w.applied[window.to[i]] - w.applied[window.from[i]];
    INVARIANT(took > Time{}, "iterations take time");
    sum += double(w.count) * double(window.to[i] - window.from[i]) / to_seconds(took), all += double(w.count);
  }
  return sum / all;
}

void put_into(timeline::Timeline& timeline, const LoweredJob& lowered, const Iterations& iterations,
              const Steady& window) {
  const auto& data = lowered.scenario.data_parallel;
  const auto& ranks = lowered.graph.ranks();
  std::vector<std::size_t> k(ranks.size(), window.to.front());
  const auto& workers = iterations.workers();
  std::vector<Time> zero(ranks.size(), Time{INT64_MAX});
  Time first{INT64_MAX};
  for (std::size_t i = 0; i < workers.size(); i++) {
    const auto& w = workers[i];
    k[w.rank] = window.to[i], zero[w.rank] = w.begun[window.to[i]];
    first = std::min(first, zero[w.rank]);
    for (const auto& end : ranks[w.rank].attachments) {  // server threads are in the same iteration as their worker
      auto& theirs = zero[end.peer.index()];
      k[end.peer.index()] = window.to[i], theirs = std::min(theirs, zero[w.rank]);
    }
  }
  // The optimizer step after the passes of an iteration uses sums that are as old as the delay.
  const auto older = static_cast<std::size_t>(std::max<std::int64_t>(0, data.delay));
  for (std::size_t r = 0; r < ranks.size(); r++) {
    const auto& program = lowered.graph.program_of(ranks[r]);
    const bool worker = lower::is_worker(program);
    for (std::size_t i = 0; i < program.size(); i++) {
      const std::size_t task = ranks[r].first_task + i;
      const auto of = worker && program.coordinates[i].pass == Pass::optimizer ? k[r] - older : k[r];
      timeline.start[task] = iterations.start(r, of, i) - zero[r];
      timeline.end[task] = iterations.end(r, of, i) - zero[r];
    }
  }
}

}  // namespace

Served synchronous(const scenario::Scenario& scenario, Time iteration) {
  Served served;
  served.servers = scenario.data_parallel.servers;
  served.steps_per_s = iteration > Time{} ? 1 / to_seconds(iteration) : 0;
  served.updates_per_sample = 1 / double(scenario.batch.global);
  return served;
}

Served in_turn(LoweredJob& lowered, Time all) {
  const auto& data = lowered.scenario.data_parallel;
  const auto n = std::int64_t{data.performed};
  auto served = synchronous(lowered.scenario, Time(all.count() / n));
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += double(std::min(i, data.delay));
  const auto most = std::min(n - 1, data.delay);
  served.staleness_mean = sum / double(n), served.staleness_max = double(most);
  served.versions = most + 1;
  lowered.assumptions.push_back(
      fmt::format("Parameter servers with delay {}: {} iterations that overlap are one graph, and what is called an "
                  "iteration; behind them all parameters are the same again. Messages that come early wait in the "
                  "transport.",
                  data.delay, n));
  return served;
}

Served delayed(LoweredJob& lowered, timeline::Timeline& timeline, backend::RunOptions run) {
  const auto& scenario = lowered.scenario;
  const auto& data = scenario.data_parallel;
  const auto n = static_cast<std::uint32_t>(scenario.simulate.iterations);
  if (lowered.graph.tasks() > kMostDelayedTasks / n)
    throw UserError(
        fmt::format("'data_parallel.delay': {} iterations of {} tasks are more than {} in one graph; set "
                    "training.bucket larger, or "
                    "simulate.iterations smaller",
                    n, lowered.graph.tasks(), kMostDelayedTasks));
  const auto several = lower::delayed(lowered.graph, data, n);
  run.iterations = 1;
  const auto all = engine::make_sim()->prepare(several.graph)->run(run);
  const Iterations iterations(lowered, several, all, n);
  const auto& workers = iterations.workers();
  const auto window = steady(workers, data);

  Served served;
  served.servers = data.servers;
  served.by_worker = data.unbounded();
  served.steps_per_s = steps_per_s(workers, window);
  Staleness staleness;
  for (std::size_t i = 0; i < workers.size(); i++)
    for (auto k = window.from[i]; k <= window.to[i]; k++) {
      if (data.unbounded()) {
        add_pushes(workers, i, k, staleness);
      } else {
        const auto old = std::int64_t(k) - version(workers[i], k, data);
        staleness.add(double(old), old, workers[i].count);
      }
    }
  const double updates = data.unbounded() ? double(scenario.parallelism.data) : 1;  // updates per step
  served.staleness_mean = staleness.sum / staleness.samples / updates;
  served.staleness_max = double(staleness.most) / updates;
  served.versions = versions_in_use(workers, window, data);
  served.updates_per_sample = updates / double(scenario.batch.global);

  const Time period = seconds(1 / served.steps_per_s);
  put_into(timeline, lowered, iterations, window);
  timeline.iteration_end.assign(1, period);
  timeline.engine = all.engine;
  timeline.contention = all.contention;
  if (auto& contention = timeline.contention) {
    contention->without = period - Time((all.makespan() - contention->without).count() / n);
    for (auto& resource : contention->resources) resource.slowed = Time(resource.slowed.count() / n);
  }
  lowered.assumptions.push_back(fmt::format(
      "Parameter servers with delay {}: {} iterations were simulated without a barrier between them, and the time is "
      "their steady period; a worker has room for one set of gradients on their way while it computes the next.",
      data.unbounded() ? "unbounded" : std::to_string(data.delay), n));
  lowered.warnings.push_back(
      fmt::format("'data_parallel.delay' lets gradients be {:.3g} steps old on average and {:.3g} at most: more steps "
                  "per second are not more convergence",
                  served.staleness_mean, served.staleness_max));
  return served;
}

}  // namespace rehearsal::answer
