// Better links, memories and GPUs in random trainings: no single work takes longer, and a step hardly ever.
//
// A step may: a task that ends earlier may start another one that delays others (Graham's anomalies, SIAM J. Appl.
// Math. 17, 1969). Steps slower by more than .1 % are listed with their cause, and none may be slower by 1 %.
//
// In every other training kernels cost their host nothing: host time beyond a layer's kernels is computed as if those
// were not slowed down, so a kernel that is faster alone and equally fast under contention appears slower. Of 15,000
// steps 50 were slower by more than .1 % and 9 by more than 1 %, up to 4 %; 8 of those 9 were of this kind.
#include <doctest/doctest.h>

#include <map>

#include "answer/predict.hpp"
#include "fluid/flows.hpp"
#include "graph/work.hpp"
#include "random_training.hpp"
#include "scenario/fields.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

constexpr double kListed = .001, kMost = .01, kMostOfHosts = .05;
constexpr const char* kNoHost = "framework.host_time_per_kernel=0us";
constexpr double kWeights = 0x1p-20;  // precision of weights: detects flows that contend on their own links

struct Change {
  const char* key;
  double factor;
};
constexpr Change kChanges[] = {{"cluster.links.scale_out.bandwidth", 1.3},
                               {"cluster.links.scale_out.bandwidth", 4},
                               {"cluster.links.scale_up.bandwidth", 1.3},
                               {"cluster.links.scale_up.bandwidth", 4},
                               {"cluster.links.scale_up.p2p_bandwidth", 2},
                               {"cluster.links.scale_out.latency", .5},
                               {"cluster.links.scale_up.latency", .5},
                               {"cluster.message_overhead", .5},
                               {"cluster.gpu.sms", 1.5},
                               {"cluster.gpu.memory_bandwidth", 1.3}};

// The same training with a key changed; nothing if the key has no value to change.
std::optional<answer::LoweredJob> changed(const RandomTraining& training, std::vector<std::string> sets,
                                          const answer::LoweredJob& usual, const Change& change) {
  const auto& field = scenario::scenario_fields().at(change.key);
  const auto value = fields::scaled(field.form, field.get(&usual.scenario), change.factor);
  if (!value || field.get(&usual.scenario) == fields::Value(Time{})) return std::nullopt;
  sets.push_back(fmt::format("{}={}", change.key, fields::written(*value)));
  return question(training.text(), sets);
}

// Works whose price involves nothing else: a kernel beside a collective shares its GPU with more channels when links
// are faster, and the host's time beyond a kernel grows as the kernel gets faster.
bool by_itself(const graph::Work& work) {
  return !std::holds_alternative<graph::Overlapped>(work) && !std::holds_alternative<graph::HostBound>(work) &&
         !std::holds_alternative<graph::Sequence>(work);
}

// The time of each work when nothing else runs: only its own flows meet on the links of its routes.
using Alone = std::map<std::pair<std::uint64_t, std::uint32_t>, Time>;

Alone alone(const answer::LoweredJob& question) {
  const engine::Prepared graph(question.graph);
  const engine::Demands demands(graph, {question.resource_map->places, question.footprints});
  std::vector<Wide> capacities;
  for (const auto& resource : question.resource_map->places.resources) capacities.push_back(resource.capacity);
  fluid::Flows flows(capacities);
  Alone all;
  each_run(graph, [&](const engine::Actor& actor, WorkId work, std::uint64_t) {
    const auto [at, fresh] = all.try_emplace({actor.key(), work.value});
    if (fresh) at->second = flows.alone(flows.profile(phases(demands, actor, work)));
  });
  return all;
}

double slower(const answer::LoweredJob& was, const answer::LoweredJob& is, const char* engine) {
  return simulate(is, engine).makespan() / simulate(was, engine).makespan() - 1;
}

// A changed order without any contention; otherwise sharing, with the place where it costs most.
std::string cause(const answer::LoweredJob& was, const answer::LoweredJob& is) {
  if (const double alone = slower(was, is, "events"); alone > 0)
    return fmt::format("an order: {:+.2f} % where nobody feels anybody", alone * 100);
  const auto shared = simulate(is, "auto");
  if (!shared.contention || shared.contention->resources.empty()) return "unknown";
  const auto& place = is.resource_map->places.resources[shared.contention->resources.front().number];
  return "who meets whom, most at " + cluster::name(is.resource_map->resources[place.origin]);
}

}  // namespace

TEST_CASE("better links and GPUs slow no single work, and steps hardly ever") {
  struct Row {
    int tried = 0, slower = 0;
    double worst = 0;
  };
  std::map<std::pair<std::string, double>, Row> rows;
  std::string listed;
  int trainings = 0;
  for (std::uint64_t seed = 20'000; trainings < 60; ++seed) {
    const RandomTraining training(seed);
    const bool host = seed % 2 == 0;
    const std::vector<std::string> sets(host ? 0 : 1, kNoHost);
    const auto usual = question(training.text(), sets);
    if (!usual) continue;
    ++trainings;
    const auto was = simulate(*usual, "auto");
    const auto alone_was = alone(*usual);
    for (const auto& change : kChanges) {
      CAPTURE(seed);
      CAPTURE(training.text());
      CAPTURE(std::string(change.key));
      CAPTURE(change.factor);
      const auto better = changed(training, sets, *usual, change);
      if (!better) continue;
      auto& row = rows[{change.key, change.factor}];
      ++row.tried;
      REQUIRE(better->graph.works().size() == usual->graph.works().size());
      for (std::size_t w = 0; w < usual->durations.size(); ++w) {
        if (better->durations[w] <= usual->durations[w] || !by_itself(usual->graph.work(WorkId(w)))) continue;
        const auto work = graph::describe(usual->graph.work(WorkId(w)));
        CAPTURE(work);
        CHECK(better->durations[w].count() <= usual->durations[w].count());
      }
      if (better->graph.ranks().size() == usual->graph.ranks().size())
        for (const auto& [what, time] : alone(*better)) {
          const auto& done = usual->graph.work(WorkId(what.second));
          const double most = double(alone_was.at(what).count()) * (1 + kWeights);
          if (double(time.count()) <= most || !by_itself(done)) continue;
          const auto work = graph::describe(done);
          CAPTURE(work);
          CHECK(double(time.count()) <= most);
        }
      const auto is = simulate(*better, "auto");
      const double longer = is.makespan() / was.makespan() - 1;
      row.slower += longer > 0, row.worst = std::max(row.worst, longer);
      if (longer > kListed) {
        std::string without;
        if (host) {
          const auto a = question(training.text(), {kNoHost});
          const auto b = changed(training, {kNoHost}, *a, change);
          without = fmt::format(" ({:+.2f} % where kernels cost the host nothing)", slower(*a, *b, "auto") * 100);
        }
        listed += fmt::format("\n  training {}, {} x {}: {:+.2f} %{}; {}", seed, change.key, change.factor,
                              longer * 100, without, cause(*usual, *better));
      }
      CHECK(longer <= (host ? kMostOfHosts : kMost));
    }
  }
  std::string table;
  for (const auto& [what, row] : rows)
    table += fmt::format("\n  {:<32} x {:<4} {:3} steps, {:2} slower, by {:.3f} % at most", what.first, what.second,
                         row.tried, row.slower, row.worst * 100);
  CHECK(rows.size() == std::size(kChanges));
  MESSAGE(trainings << " trainings" << table << std::string(listed.empty() ? "" : "\nslower by more than .1 %:")
                    << listed);
}
