#include "answer/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "engine/sim.hpp"
#include "graph/builder.hpp"

namespace rehearsal::answer {
namespace {

constexpr int kLongest = 3, kMostSteps = 24;  // steps of the job with the longest step; of any other job
constexpr std::size_t kMostContended = 10;

// Several jobs as one: their graphs side by side on the resources of the cluster.
class Together {
 public:
  void add(const LoweredJob& lowered, std::uint32_t iterations) {
    questions_.push_back(&lowered);
    builder_.append(lowered.graph, iterations);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(durations_, lowered.durations), append(held_, lowered.held), append(footprints_, lowered.footprints);
    durations_.emplace_back(), held_.emplace_back(), footprints_.emplace_back();  // the barrier
    add_resources(*lowered.resource_map);
  }

  timeline::Timeline run() {
    graph_ = std::move(builder_).finish();
    place();
    backend::RunOptions options;
    options.durations = durations_, options.held = held_, options.footprints = footprints_, options.places = &places_;
    return engine::make_sim()->prepare(graph_)->run(options);
  }

  const graph::TaskGraph& graph() const { return graph_; }
  std::string name(std::uint32_t resource) const { return cluster::name(resources_[resource]); }

 private:
  void add_resources(const lower::ResourceMap& resource_map) {
    auto& numbers = numbers_.emplace_back();
    for (const auto& resource : resource_map.places.resources) {
      const auto& real = resource_map.resources[resource.origin];
      const auto [at, fresh] =
          known_.try_emplace({real.kind, real.from, real.to}, static_cast<std::uint32_t>(resources_.size()));
      if (fresh) {
        resources_.push_back(real);
        places_.resources.push_back({resource.capacity, at->second, 1});
      }
      numbers.push_back(at->second);
    }
  }

  template <class Loads>
  void add_row(std::size_t job, const Loads& loads) {
    row_.clear();
    for (const graph::Load& load : loads) row_.push_back({numbers_[job][load.resource], load.parts});
    places_.add(row_);
  }
  template <class Of>
  void add_rows(std::size_t job, const Of& of) {
    for (std::size_t w = 0; w < graph::kWays; ++w) add_row(job, of(static_cast<graph::Way>(w)));
  }

  // Rows of ranks, of groups, of the endpoints of ranks; job after job within each.
  void place() {
    const auto of = [&](std::size_t job) -> const graph::ResourceTable& {
      return questions_[job]->resource_map->places;
    };
    const auto each = [&](const auto& visit) {
      for (std::size_t j = 0; j < questions_.size(); ++j) visit(j, questions_[j]->graph);
    };
    each([&](std::size_t j, const graph::TaskGraph& graph) {
      for (std::size_t r = 0; r < graph.ranks().size(); ++r)
        add_rows(j, [&](graph::Way way) { return of(j).of_rank(RankId(r), way); });
    });
    places_.begin_groups();
    each([&](std::size_t j, const graph::TaskGraph& graph) {
      for (std::size_t g = 0; g < graph.groups().size(); ++g)
        add_rows(j, [&](graph::Way way) { return of(j).of_group(GroupId(g), way); });
      add_rows(j, [](graph::Way) { return std::span<const graph::Load>{}; });  // the barrier
    });
    each([&](std::size_t j, const graph::TaskGraph& graph) {
      for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
        places_.begin_endpoints();
        const auto& kinds = graph.program_of(graph.ranks()[r]).endpoints;  // except the barrier, which is not a send
        for (std::size_t e = 0; e < kinds.size(); ++e)
          add_rows(j, [&](graph::Way way) {
            return kinds[e] == graph::EndpointKind::send ? of(j).of_send(RankId(r), graph::EndpointId(e), way)
                                                         : std::span<const graph::Load>{};
          });
      }
    });
  }

  std::vector<const LoweredJob*> questions_;
  graph::GraphBuilder builder_;
  graph::TaskGraph graph_;
  std::vector<Time> durations_, held_;
  std::vector<graph::Footprint> footprints_;
  std::map<std::tuple<cluster::Resource::Kind, cluster::Device, cluster::Device>, std::uint32_t> known_;
  std::vector<cluster::Resource> resources_;
  std::vector<std::vector<std::uint32_t>> numbers_;  // by job: the numbers of its resources
  graph::ResourceTable places_;
  std::vector<graph::Load> row_;
};

// When the last task of each iteration ends on any of these ranks.
std::vector<Time> ends_of_iterations(const graph::TaskGraph& graph, const timeline::Timeline& timeline,
                                     std::size_t first_rank, std::size_t ranks, std::uint32_t iterations) {
  std::vector<Time> ends(iterations);
  for (std::size_t r = first_rank; r < first_rank + ranks; ++r) {
    const auto& rank = graph.ranks()[r];
    const auto tasks = graph.program_of(rank).size(), each = tasks / iterations;
    for (std::size_t i = 0; i < tasks; ++i)
      ends[i / each] = std::max(ends[i / each], timeline.end[rank.first_task + i]);
  }
  return ends;
}

}  // namespace

SharedJobs predict(const scenario::Jobs& jobs) {
  SharedJobs all{jobs.name, jobs.file, {}, {}, {}, jobs.warnings};
  std::vector<LoweredJob> questions;
  Time longest;
  for (const auto& job : jobs.jobs) {
    auto scenario = job.scenario;
    scenario.concrete->cluster = jobs.cluster;
    scenario.on = job.on;
    all.jobs.push_back({predict(scenario), job.nodes, {}, 0});
    longest = std::max(longest, all.jobs.back().alone.summary.iteration);
    scenario.simulate.symmetry = false;  // symmetric GPUs of a job differ in which other jobs they meet
    scenario.simulate.contention = scenario::Contention::automatic;
    questions.push_back(prepare(scenario));
    if (!questions.back().resource_map)
      throw UserError(fmt::format("{}: jobs share links, and framework {} leaves sharing out", job.scenario.file,
                                  scenario.concrete->framework.name));
  }
  Together together;
  std::vector<std::uint32_t> iterations;
  for (std::size_t j = 0; j < questions.size(); ++j) {
    const double steps = std::ceil(kLongest * (longest / all.jobs[j].alone.summary.iteration) - 1e-9);
    if (steps > kMostSteps)
      all.warnings.push_back(
          fmt::format("'{}' takes {:.0f} steps while the longest job takes {}; after {} it is left out",
                      all.jobs[j].alone.summary.name, steps, kLongest, kMostSteps));
    iterations.push_back(static_cast<std::uint32_t>(std::min<double>(steps, kMostSteps)));
    together.add(questions[j], iterations.back());
  }
  const auto timeline = together.run();
  all.engine = timeline.engine;
  std::vector<std::vector<Time>> ends;
  std::size_t first = 0;
  Time stop{INT64_MAX};  // until then all jobs run
  for (std::size_t j = 0; j < questions.size(); ++j) {
    const auto ranks = questions[j].graph.ranks().size();
    ends.push_back(ends_of_iterations(together.graph(), timeline, first, ranks, iterations[j]));
    first += ranks;
    if (iterations[j] < kMostSteps) stop = std::min(stop, ends.back().back());
  }
  for (std::size_t j = 0; j < questions.size(); ++j) {
    const auto counted =
        std::max<std::ptrdiff_t>(1, std::upper_bound(ends[j].begin(), ends[j].end(), stop) - ends[j].begin());
    all.jobs[j].iterations = static_cast<int>(counted);
    all.jobs[j].together = Time(ends[j][static_cast<std::size_t>(counted) - 1].count() / counted);
  }
  if (timeline.contention)
    for (const auto& r : timeline.contention->resources) {
      auto& listed = all.contended;
      if (!listed.empty() && listed.back().slowed == r.slowed && listed.back().busy == r.busy) {
        ++listed.back().count;
        continue;
      }
      if (listed.size() == kMostContended) break;
      listed.push_back({together.name(r.number), 1, r.slowed, r.busy});
    }
  return all;
}

}  // namespace rehearsal::answer
