#include "dispatch/results.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/error.hpp"

namespace rehearsal::dispatch {
namespace {

using timeline::Spans;
using timeline::Timeline;

// Thresholds beyond which a run counts as disturbed; spread is the usual sign on shared machines.
constexpr double kSpread = 1.1;     // p90 / p10 of the iteration times
constexpr std::size_t kFewest = 3;  // least number of iterations for a meaningful spread
constexpr double kOthers = .1;      // cores that other programs may use
constexpr double kBusy = .9;        // share of all cores in use, below which nobody lacks a core
// Cores that other programs may use while ranks compute: caches, memory and hyperthreads are shared even when cores are
// free.
constexpr double kBeside = .25;
constexpr double kWaited = .03;      // share of the time that a rank may wait for a core
const Time kShortest = seconds(.2);  // shortest run for which processor ticks are meaningful

// The q-quantile by nearest rank, which needs no interpolation.
Time quantile(const std::vector<Time>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * double(sorted.size() - 1) + .5)];
}

// One iteration of all ranks, merged into one array.
Spans join(const graph::TaskGraph& graph, std::vector<RankResult>& ranks, std::size_t iteration) {
  Spans all;
  all.start.resize(graph.tasks());
  all.end.resize(graph.tasks());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Spans mine = std::move(ranks[r].iterations[iteration]);
    INVARIANT(mine.start.size() == graph.program_of(graph.ranks()[r]).size() && mine.end.size() == mine.start.size(),
              "a span for every task of a rank");
    const auto first = static_cast<std::ptrdiff_t>(graph.ranks()[r].first_task);
    std::ranges::copy(mine.start, all.start.begin() + first);
    std::ranges::copy(mine.end, all.end.begin() + first);
  }
  return all;
}

// A send ends when its receive saw the data, which may be before the sender's own end: a rank stays busy for the
// predicted time even if the message was faster.
void end_sends(const graph::TaskGraph& graph, Spans& spans) {
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Program& program = graph.program_of(graph.ranks()[r]);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const std::uint32_t endpoint = program.endpoint[i];
      if (endpoint == graph::kNoEndpoint || program.endpoints[endpoint] != graph::EndpointKind::send) continue;
      const std::size_t send = graph.task(RankId(r), LocalTask(i)).index();
      const Time seen = spans.end[graph.partner(RankId(r), LocalTask(i)).index()];
      spans.end[send] = std::max(spans.start[send], std::min(spans.end[send], seen));
    }
  }
}

// A collective begins when its last member joins, which other members may not know.
void start_collectives(const graph::TaskGraph& graph, Spans& spans) {
  for (std::size_t g = 0; g < graph.groups().size(); ++g)
    for (std::uint32_t use = 0; use < graph.uses(graph.groups()[g]); ++use) {
      const auto meeting = graph.meeting(GroupId(g), use);
      Time together{INT64_MIN};
      for (const auto [rank, task] : meeting)
        together = std::max(together, spans.start[graph.task(rank, task).index()]);
      for (const auto [rank, task] : meeting) {
        const std::size_t id = graph.task(rank, task).index();
        spans.start[id] = std::min(together, spans.end[id]);
      }
    }
}

}  // namespace

Timeline assemble(const graph::TaskGraph& graph, std::vector<RankResult> ranks, const std::string& backend,
                  backend::Compute compute, bool on_cores) {
  INVARIANT(ranks.size() == graph.ranks().size(), "a result of every rank");
  const bool real = compute == backend::Compute::real;
  Timeline timeline;
  timeline.backend = backend;
  timeline.fidelity = real ? timeline::Fidelity::exact : timeline::Fidelity::timed;
  const std::size_t iterations = ranks.empty() ? 0 : ranks.front().iterations.size();
  for (const RankResult& rank : ranks)
    INVARIANT(rank.iterations.size() == iterations, "every rank performs every iteration");

  for (std::size_t i = 0; i < iterations; ++i) {
    Spans spans = join(graph, ranks, i);
    end_sends(graph, spans);
    start_collectives(graph, spans);
    const auto last = std::ranges::max_element(spans.end);
    timeline.iteration_end.push_back(last == spans.end.end() ? Time{} : *last);
    timeline.iterations.push_back(std::move(spans));
  }
  if (iterations > 0) {
    // The lower median, so that the spans belong to an iteration that took place.
    std::vector<Time> sorted = timeline.iteration_end;
    std::ranges::sort(sorted);
    const auto median = std::ranges::find(timeline.iteration_end, sorted[(iterations - 1) / 2]);
    timeline.median_iteration = static_cast<std::size_t>(median - timeline.iteration_end.begin());
    timeline.start = timeline.iterations[timeline.median_iteration].start;
    timeline.end = timeline.iterations[timeline.median_iteration].end;
  }

  // Two clocks may be off from that of rank 0 to different sides.
  Time second;
  for (const RankResult& rank : ranks)
    second = std::max(second, std::min(rank.clock_error, timeline.clock_error)),
    timeline.clock_error = std::max(timeline.clock_error, rank.clock_error);
  timeline.clock_error += second;

  Circumstances around{.lengths = timeline.iteration_end, .cores = std::thread::hardware_concurrency()};
  for (const RankResult& rank : ranks) {
    if (real) timeline.peak_bytes.push_back(rank.learned.peak);
    if (!rank.learned.beyond.empty()) timeline.beyond_bytes.push_back(rank.learned.beyond);
    if (const auto& disk = rank.learned.disk; !disk.means.empty()) {
      timeline.disk.means = disk.means;
      timeline.disk.length += disk.length, timeline.disk.cached += disk.cached;
    }
    if (rank.learned.allocator_peak > Bytes{}) {
      timeline.allocator_peak_bytes.push_back(rank.learned.allocator_peak);
      timeline.allocator_allowance.push_back(rank.learned.allocator_allowance);
    }
    timeline.devices.insert(timeline.devices.end(), rank.learned.devices.begin(), rank.learned.devices.end());
    if (!on_cores) continue;
    around.own += rank.used.own;
    around.others = std::max(around.others, rank.used.machine);
    around.stolen = std::max(around.stolen, rank.used.stolen);
    around.waited = std::max(around.waited, rank.used.waited);
    around.ordinary_priority = around.ordinary_priority || (real && !rank.raised_priority);
  }
  if (real && on_cores) around.computing_ranks = ranks.size();
  around.others = std::max(around.others - around.own, Time{});
  around.wall = std::accumulate(around.lengths.begin(), around.lengths.end(), Time{});
  timeline.disturbances = disturbances(around);
  return timeline;
}

std::vector<std::string> disturbances(const Circumstances& around) {
  std::vector<std::string> notes;
  if (around.computing_ranks > around.cores && around.cores > 0)
    notes.push_back(fmt::format("{} ranks computed on {} cores: their times are not those of ranks with a core each",
                                around.computing_ranks, around.cores));
  std::vector<Time> sorted = around.lengths;
  std::ranges::sort(sorted);
  if (sorted.size() >= kFewest && quantile(sorted, .1) > Time{}) {
    const double spread = quantile(sorted, .9) / quantile(sorted, .1);
    if (spread > kSpread)
      notes.push_back(fmt::format("iterations spread by {:.0f} % (p90 over p10)", (spread - 1) * 100));
  }
  const double wall = to_seconds(around.wall);
  // Scheduler counts are exact even for short runs. With more ranks than cores the ranks wait for each other.
  const bool alone = around.computing_ranks > 0 && around.computing_ranks <= around.cores;
  if (const double waited = wall > 0 ? to_seconds(around.waited) / wall : 0; alone && waited > kWaited)
    notes.push_back(fmt::format("a rank waited {:.0f} % of the time for a core that others had", waited * 100));
  // Other programs disturb when they used more than the ranks left free. Ticks last a hundredth of a second, so short
  // runs tell nothing.
  if (around.wall < kShortest) return notes;
  const double others = to_seconds(around.others) / wall, wanted = others + to_seconds(around.own) / wall;
  if ((others > kOthers && wanted > kBusy * around.cores) || (around.computing_ranks > 0 && others > kBeside))
    notes.push_back(fmt::format("other programs used {:.2f} of {} cores", others, around.cores));
  if (const double stolen = to_seconds(around.stolen) / wall; stolen > kOthers)
    notes.push_back(fmt::format("the hypervisor took {:.2f} of {} cores", stolen, around.cores));
  if (around.ordinary_priority && !notes.empty())
    notes.push_back("the ranks had ordinary priority: raising it was not permitted");
  return notes;
}

void compare_digests(std::span<const std::string> digests) {
  std::vector<std::size_t> others;
  for (std::size_t r = 1; r < digests.size(); ++r)
    if (digests[r] != digests[0]) others.push_back(r);
  if (others.empty()) return;
  throw MachineError(fmt::format(
      "rank{} {} would perform another task graph than rank 0: start all of them with the same program and input",
      others.size() == 1 ? "" : "s", fmt::join(others, ", ")));
}

}  // namespace rehearsal::dispatch
