#include "dispatch/results.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.hpp"

#ifdef __linux__
#include <sys/resource.h>
#endif

namespace rehearsal::dispatch {
namespace {

using timeline::Spans;
using timeline::Timeline;

// A run is called disturbed beyond these; the spread is the usual sign on shared machines.
constexpr double kSpread = 1.1;                    // p90 over p10 of the iterations' lengths
constexpr std::int64_t kSwitchesPerIteration = 5;  // of one rank; the scheduler's own tick explains one or two
constexpr std::size_t kFewest = 3;                 // iterations below which a spread says nothing

// The value with a share `q` of the others below it: nearest rank, which needs no interpolation.
Time quantile(const std::vector<Time>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * double(sorted.size() - 1) + .5)];
}

// One iteration of all ranks in one array.
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

// A send ends when its receive saw the data, which may be before the sender thinks so (a rank that is kept busy for the
// predicted time of a message that was faster).
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

}  // namespace

Timeline assemble(const graph::TaskGraph& graph, std::vector<RankResult> ranks, const std::string& backend,
                  backend::Compute compute) {
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
    const auto last = std::ranges::max_element(spans.end);
    timeline.iteration_end.push_back(last == spans.end.end() ? Time{} : *last);
    timeline.iterations.push_back(std::move(spans));
  }
  if (iterations > 0) {
    // The lower median, so that the spans are those of an iteration that took place.
    std::vector<Time> sorted = timeline.iteration_end;
    std::ranges::sort(sorted);
    const auto median = std::ranges::find(timeline.iteration_end, sorted[(iterations - 1) / 2]);
    timeline.median_iteration = static_cast<std::size_t>(median - timeline.iteration_end.begin());
    timeline.start = timeline.iterations[timeline.median_iteration].start;
    timeline.end = timeline.iterations[timeline.median_iteration].end;
  }

  Circumstances around{.lengths = timeline.iteration_end, .cores = std::thread::hardware_concurrency()};
  for (const RankResult& rank : ranks) {
    if (real) timeline.peak_bytes.push_back(rank.learned.peak);
    around.worst_switches = std::max(around.worst_switches, rank.involuntary_switches);
  }
  if (real) around.computing_ranks = ranks.size();
#ifdef __linux__
  if (getloadavg(&around.load, 1) != 1) around.load = 0;
#endif
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
  const auto iterations = static_cast<std::int64_t>(std::max<std::size_t>(sorted.size(), 1));
  if (around.worst_switches > kSwitchesPerIteration * iterations)
    notes.push_back(fmt::format("a rank was interrupted {} times in {} iterations", around.worst_switches, iterations));
  if (around.cores > 0 && around.load > around.cores)
    notes.push_back(fmt::format("load average {:.1f} on {} cores", around.load, around.cores));
  return notes;
}

std::int64_t involuntary_switches() {
#ifdef __linux__
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nivcsw;
#endif
  return 0;
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
