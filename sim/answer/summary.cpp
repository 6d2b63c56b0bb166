#include "answer/summary.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "answer/reserved_memory.hpp"
#include "base/parallel.hpp"
#include "cost/device_memory.hpp"
#include "lower/delayed.hpp"
#include "scenario/error_band.hpp"
#include "timeline/twins.hpp"

namespace rehearsal::answer {
namespace {

constexpr std::size_t kPathSegments = 400;  // a longer path is cut; its last entry says so

using timeline::Timeline;

// Communicators that a rank opens: of all ranks, of its tensor and data groups, one with each neighbour in the
// pipeline, and one between the copies of a tied embedding.
int communicators(const LoweredJob& lowered, const graph::Rank& rank) {
  if (lowered.scenario.data_parallel.served()) return 0;  // parameter servers use no collectives
  const auto& p = lowered.scenario.parallelism;
  const auto& program = lowered.graph.program_of(rank);
  std::set<std::uint32_t> peers;
  int count = (p.gpus() > 1) + (p.tensor > 1) + (p.data > 1);
  for (std::size_t e = 0; e < program.endpoints.size(); e++) {
    const auto tasks = program.endpoint_tasks[e];
    if (program.endpoints[e] != graph::EndpointKind::group)
      peers.insert(rank.attachments[e].peer.value);
    else if (!tasks.empty())
      count += program.coordinates[tasks.front().index()].pass == graph::Pass::embedding_reduce;
  }
  return count + static_cast<int>(peers.size());
}

void add_figures(RankSummary& s, const LoweredJob& lowered, const Timeline& timeline, RankId rank, Bytes allocated) {
  if (lowered.scenario.abstract) {
    s.peak = {double(allocated.count()) / scenario::kMemoryUnit, std::nullopt, std::nullopt};
    return;
  }
  // Native kernels use exactly the buffers of the graph, in the memory of a process.
  const auto& c = *lowered.scenario.concrete;
  const auto exact = double(allocated.count());
  if (c.framework.native_kernels) {
    s.peak = {exact, exact, exact};
    return;
  }
  const auto& gpu = c.cluster.gpu_at(lowered.graph.ranks()[rank.index()].node * c.cluster.gpus_per_node);
  const Bytes outside = cost::device_overhead(cost::context(gpu, c.framework),
                                              communicators(lowered, lowered.graph.ranks()[rank.index()]));
  s.peak = {exact, exact, exact + double(outside.count())};
  if (c.training.allocator == models::Allocator::exact) return;
  const bool expandable = c.training.allocator == models::Allocator::expandable;
  const auto held = reserved_memory(lowered.graph, timeline, rank, {gpu.memory - outside, expandable});
  s.peak.reserved = std::max(exact, double(held.reserved.count()));
  s.peak.device = *s.peak.reserved + double(outside.count());
  s.allocator_retries = held.retries;
}

std::vector<std::uint32_t> stages_of(const graph::Program& program) {
  std::set<std::uint32_t> stages;
  for (const auto& at : program.coordinates)
    if (at.microbatch != graph::kNoMicrobatch) stages.insert(at.stage);
  return {stages.begin(), stages.end()};
}

std::vector<RankSummary> rank_summaries(const LoweredJob& lowered, const Timeline& timeline,
                                        const SummaryParts& parts) {
  const auto& graph = lowered.graph;
  const auto busy = timeline::busy(graph, timeline, lowered.durations);
  const auto identical_ranks = timeline::identical_ranks(graph, timeline);
  std::vector<std::vector<std::uint32_t>> stages;
  for (const auto& program : graph.programs()) stages.push_back(stages_of(program));
  std::vector<RankSummary> ranks(graph.ranks().size());
  std::vector<std::size_t> twin(ranks.size());  // first rank that does the same: itself, or a lower one
  std::vector<std::size_t> own;
  for (std::size_t r = 0; r < ranks.size(); r++) {
    twin[r] = identical_ranks[r].index();
    if (!timeline.peak_bytes.empty() ||  // measured per rank, so no twin
        communicators(lowered, graph.ranks()[r]) != communicators(lowered, graph.ranks()[twin[r]]))
      twin[r] = r;
    if (twin[r] == r) own.push_back(r);
  }
  in_parallel(own.size(), parts.threads, [&](std::size_t i) {
    const std::size_t r = own[i];
    RankSummary& s = ranks[r];
    s.stages = stages[graph.ranks()[r].program.index()];
    s.busy = busy[r];
    if (!parts.memory) return;
    const auto memory = timeline::memory_peak(graph, timeline, RankId(r));
    add_figures(s, lowered, timeline, RankId(r), timeline.peak_bytes.empty() ? memory.peak : timeline.peak_bytes[r]);
    s.memory = memory.at_peak;
  });
  for (std::size_t r = 0; r < ranks.size(); r++) {
    const auto& rank = graph.ranks()[r];
    if (twin[r] != r) ranks[r] = ranks[twin[r]];
    ranks[r].rank = rank.job_rank, ranks[r].count = rank.multiplicity, ranks[r].node = rank.node;
  }
  return ranks;
}

// Mean FLOP/s of the GPUs; 0 if any has no rate.
double mean_peak(const cluster::ClusterSpec& cluster, const std::vector<RankSummary>& ranks, Precision precision) {
  double sum = 0, gpus = 0;
  for (const auto& rank : ranks) {
    const auto& peaks = cluster.gpu_at(rank.rank).peak;
    const auto peak = peaks.find(precision);
    if (peak == peaks.end() || peak->second.value() <= 0) return 0;
    sum += rank.count * peak->second.value(), gpus += rank.count;
  }
  return gpus > 0 ? sum / gpus : 0;
}

std::vector<PathSegment> path_segments(const graph::TaskGraph& graph, const Timeline& timeline) {
  std::vector<PathSegment> segments;
  for (const auto& step : timeline::critical_path(graph, timeline)) {
    const RankId rank = graph.rank_of(step.task);
    const auto& r = graph.ranks()[rank.index()];
    const auto& program = graph.program_of(r);
    const std::size_t local = graph.local(step.task).index();
    const auto lane = program.lane[local];
    if (step.start == step.end) continue;
    const std::string what = graph::is_send(lane) ? "message" : graph::name(program.coordinates[local].pass);
    if (!segments.empty() && segments.back().rank == r.job_rank && segments.back().what == what) {
      segments.back().end = step.end, segments.back().tasks++;
    } else if (segments.size() == kPathSegments) {
      segments.back().what = "... and what follows", segments.back().end = step.end, segments.back().tasks++;
    } else {
      segments.push_back({r.job_rank, what, step.start, step.end, 1});
    }
  }
  return segments;
}

// Servers are skipped: their breakdown of time says little.
RankId last_worker(const graph::TaskGraph& graph, const Timeline& timeline) {
  RankId last;
  Time latest{-1};
  for (std::size_t r = 0; r < graph.ranks().size(); r++) {
    const auto& program = graph.program_of(graph.ranks()[r]);
    if (!lower::is_worker(program)) continue;
    for (std::size_t i = 0; i < program.size(); i++)
      if (const Time end = timeline.end[graph.ranks()[r].first_task + i]; end > latest) latest = end, last = RankId(r);
  }
  return last;
}

// Without these parts nobody reads what follows from the timeline (Options::time_alone).
bool no_figures(const SummaryParts& parts) { return !parts.memory && !parts.critical_path && !parts.job; }

}  // namespace

bool same_answer(const Summary& a, const Summary& b) {
  const auto numbers = [](const Summary& s) {
    return std::tie(s.iteration, s.samples_per_s, s.tokens_per_s, s.model_tflops_per_gpu, s.hardware_tflops_per_gpu,
                    s.mfu, s.hfu, s.useful, s.bubble_rate, s.peak, s.fits, s.capacity, s.tiers, s.offload_efficiency,
                    s.gpus, s.microbatches, s.breakdown, s.ranks, s.traffic.per_gpu, s.traffic.all_gpus,
                    s.traffic.data_parallel, s.served, s.contention);
  };
  const auto job = [](const Summary& s) {
    const job::WholeRun& j = *s.job;
    return std::tie(j.steps, j.expected, j.low, j.high, j.deadline_days, j.budget, j.failures, j.checkpoint_interval_s,
                    j.checkpoint_bytes, j.checkpoint_save_s);
  };
  const auto same_job = a.job && b.job ? job(a) == job(b) : a.job.has_value() == b.job.has_value();
  // Among equal ones it does not matter which is named.
  const auto carries = [](const LinkTraffic& x, const LinkTraffic& y) {
    return std::tie(x.place, x.count, x.bytes, x.busy_share) == std::tie(y.place, y.count, y.bytes, y.busy_share);
  };
  const auto slows = [](const Contended& x, const Contended& y) {
    return std::tie(x.count, x.slowed, x.busy) == std::tie(y.count, y.slowed, y.busy);
  };
  const auto &over = a.traffic.links, &others = b.traffic.links;
  return numbers(a) == numbers(b) && same_job &&
         std::equal(over.begin(), over.end(), others.begin(), others.end(), carries) &&
         std::equal(a.contended.begin(), a.contended.end(), b.contended.begin(), b.contended.end(), slows);
}

std::optional<double> model_states(const Summary& s) {
  using graph::MemoryCategory;
  double most = 0;
  for (const auto& rank : s.ranks) {
    double held = 0;
    for (const auto c : {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer})
      held += double(rank.memory[std::size_t(c)].count());
    most = std::max(most, held);
  }
  return s.abstract || most == 0 ? std::nullopt : std::optional(most);
}

double waiting(const Summary& s) {
  using graph::Category;
  Time works;
  for (const auto category : {Category::compute, Category::recompute, Category::optimizer})
    works += s.breakdown[static_cast<std::size_t>(category)];
  return s.iteration > Time{} ? 1 - works / s.iteration : 0;
}

Summary summarize(const LoweredJob& lowered, const Timeline& timeline, const SummaryParts& parts) {
  Summary s;
  const auto& scenario = lowered.scenario;
  s.name = scenario.name, s.file = scenario.file, s.digest = scenario.digest;
  s.abstract = scenario.abstract.has_value();
  if (scenario.concrete) {
    s.framework = scenario.concrete->framework.name, s.framework_named = scenario.framework_named;
    const auto& model = scenario.concrete->model;
    s.model = {model.name,   models::parameters(model), models::active_parameters(model), model.layers,
               model.hidden, scenario.batch.sequence};
  }
  s.backend = timeline.backend, s.engine = timeline.engine, s.fidelity = timeline.fidelity;
  // Iterations are timed from their own start; the spans are those of the last one, or of the median if several were
  // performed.
  s.iteration = timeline.makespan();
  const double iteration_s = to_seconds(s.iteration);
  s.gpus = scenario.parallelism.gpus();
  s.microbatches = scenario.microbatches();
  if (no_figures(parts)) return s;
  s.ranks = rank_summaries(lowered, timeline, parts);

  Time busiest;
  for (const auto& rank : s.ranks) busiest = std::max(busiest, rank.busy);
  s.bubble_rate = iteration_s > 0 ? std::max(0., 1 - busiest / s.iteration) : 0;
  for (const auto& rank : s.ranks) {
    s.peak.allocated = std::max(s.peak.allocated, rank.peak.allocated);
    s.peak.reserved = std::max(s.peak.reserved, rank.peak.reserved);  // an empty optional compares less than any number
    s.peak.device = std::max(s.peak.device, rank.peak.device);
  }

  if (scenario.concrete) {
    const auto& cluster = scenario.concrete->cluster;
    // P / (1 - P) steps are skipped for each step that trains.
    double useful_s = iteration_s, executed = lowered.hardware_flops.value();
    if (lowered.skipped) {
      const double rate = scenario.concrete->training.overflows(), share = rate / (1 - rate);
      useful_s += share * to_seconds(lowered.skipped->step);
      executed += share * lowered.skipped->hardware_flops.value();
      s.useful = {rate, lowered.skipped->step, seconds(useful_s)};
    }
    const double per_gpu = useful_s * double(s.gpus) * 1e12;
    s.samples_per_s = double(scenario.batch.global) * std::max(1, scenario.data_parallel.performed) / useful_s;
    s.tokens_per_s = *s.samples_per_s * double(scenario.batch.sequence) * scenario.batch.useful();
    s.model_tflops_per_gpu = lowered.model_flops.value() / per_gpu;
    s.hardware_tflops_per_gpu = executed / per_gpu;
    // If the kernels were timed on this machine, the peak is the best of them, not a data sheet's.
    const auto precision = scenario.concrete->training.precision;
    const auto& profile = scenario.concrete->profile;
    const double peak = profile && !profile->kernels.empty() ? profile->peak(precision).value_or(FlopRate{}).value()
                                                             : mean_peak(cluster, s.ranks, precision);
    if (peak > 0) {
      s.mfu = *s.model_tflops_per_gpu * 1e12 / peak;
      s.hfu = *s.hardware_tflops_per_gpu * 1e12 / peak;
    }
    // Of the fullest GPU, if there are several types.
    s.capacity = double(cluster.gpu.memory.count());
    if (parts.memory) {
      double fullest = 0;
      for (const auto& rank : s.ranks) {
        const auto memory = double(cluster.gpu_at(rank.node * cluster.gpus_per_node).memory.count());
        if (*rank.peak.device / memory > fullest) fullest = *rank.peak.device / memory, s.capacity = memory;
      }
      s.fits_device = fullest <= 1;
      s.tiers = tier_summaries(lowered, timeline);
      s.fits = *s.fits_device &&
               std::all_of(s.tiers.begin(), s.tiers.end(), [](const auto& t) { return t.fits.value_or(true); });
    }
  } else if (scenario.schedule.memory_limit) {
    s.capacity = *scenario.schedule.memory_limit;
    if (parts.memory) s.fits = s.fits_device = s.peak.allocated <= *s.capacity;
  }

  const RankId last = scenario.data_parallel.served() ? last_worker(lowered.graph, timeline)
                                                      : timeline::last_rank(lowered.graph, timeline);
  s.breakdown = timeline::breakdown(lowered.graph, timeline, last, lowered.durations);
  s.breakdown_rank = lowered.graph.ranks()[last.index()].job_rank;
  using graph::Category;
  const auto part = [&](Category c) { return s.breakdown[static_cast<std::size_t>(c)]; };
  s.error_band = scenario::error_band(scenario, waiting(s));
  s.offload_efficiency =
      offload_efficiency(lowered, last, part(Category::compute) + part(Category::recompute), s.iteration);
  if (timeline.contention && lowered.resource_map) {
    constexpr std::size_t kMostContended = 10;
    s.contention = s.iteration - timeline.contention->without;
    for (const auto& r : timeline.contention->resources) {
      if (s.contended.size() == kMostContended) break;
      const auto& place = lowered.resource_map->places.resources[r.number];
      s.contended.push_back(
          {cluster::name(lowered.resource_map->resources[place.origin]), place.count, r.slowed, r.busy});
    }
  } else if (scenario.concrete && timeline.fidelity == timeline::Fidelity::simulated) {
    s.contention = Time{};
  }
  s.traffic = traffic(lowered, s.iteration);
  if (parts.critical_path) s.critical_path = path_segments(lowered.graph, timeline);
  return s;
}

}  // namespace rehearsal::answer
