// Properties of contention on small random trainings: a work that runs alone takes its time alone; without scarcity
// nothing changes; no resource exceeds its capacity.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fluid/flows.hpp"
#include "graph/work.hpp"
#include "random_training.hpp"
#include "report/perfetto.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

// A training's question with all ranks in the graph, or with classes of them, prepared for the engine.
struct Shared {
  Shared(std::optional<answer::LoweredJob> asked)
      : question(std::move(*asked)),
        graph(question.graph),
        demands(graph, {question.resource_map->places, question.footprints}) {}
  const graph::ResourceTable& places() const { return question.resource_map->places; }

  answer::LoweredJob question;
  engine::Prepared graph;
  engine::Demands demands;
};

// Calls `see(seed, text, shared)` for a number of valid trainings, each whole and folded into classes.
template <class See>
void each_training(std::size_t trainings, See see) {
  std::size_t tried = 0;
  for (std::uint64_t seed = 0; tried < trainings; ++seed) {
    const RandomTraining training(seed);
    if (!question(training.text())) continue;
    ++tried;
    for (const char* symmetry : {"auto", "off"}) {
      CAPTURE(seed);
      CAPTURE(training.text());
      CAPTURE(symmetry);
      Shared shared(question(training.text(), {fmt::format("simulate.symmetry={}", symmetry)}));
      see(shared);
    }
  }
}

std::vector<Wide> capacities(const graph::ResourceTable& places) {
  std::vector<Wide> all;
  for (const auto& resource : places.resources) all.push_back(resource.capacity);
  return all;
}

bool has_group(const graph::TaskGraph& graph, const engine::Actor& actor) {
  return actor.kind == engine::Actor::Kind::group && !graph.groups()[actor.id].members.empty();
}

// Whether the group has equally many members on each of its nodes.
bool even(const graph::TaskGraph& graph, const engine::Actor& actor) {
  if (!has_group(graph, actor)) return true;
  std::map<std::uint32_t, int> members;
  for (const auto& member : graph.groups()[actor.id].members) ++members[graph.ranks()[member.rank.index()].node];
  return std::all_of(members.begin(), members.end(), [&](auto& m) { return m.second == members.begin()->second; });
}

// Whether every path has the bandwidth that prices assume (contention knows better). It may not: on PCIe a GPU's links
// to its neighbours and to the NIC are the same; on rails a path to another rail may cross node links slower than a
// NIC; and messages may run between GPUs placed unlike the first pair of their kind.
bool ways_are_as_priced(const cluster::Machine& machine) {
  const auto& spec = machine.spec();
  const bool rails = machine.fabric().name.starts_with("rail");
  if (machine.inside().name == "pcie-host") return false;
  return !rails || (machine.inside().uniform && spec.nvlink >= spec.nic);
}

}  // namespace

TEST_CASE("without contention every work takes its price") {
  std::size_t asked = 0, uneven = 0, machines = 0;
  each_training(120, [&](const Shared& shared) {
    const auto& question = shared.question;
    if (question.graph.ranks().size() != std::size_t(question.scenario.concrete->cluster.gpus())) return;  // folded
    const bool as_priced = ways_are_as_priced(cluster::Machine(question.scenario.concrete->cluster));
    machines += as_priced;
    fluid::Flows flows(capacities(shared.places()));
    std::set<std::pair<std::uint64_t, std::uint32_t>> seen;
    each_run(shared.graph, [&](const engine::Actor& actor, WorkId work, std::uint64_t) {
      if (!seen.emplace(actor.key(), work.value).second) return;
      ++asked;
      const Time alone = flows.alone(flows.profile(phases(shared.demands, actor, work)));
      const Time price = question.durations[work.index()];
      CAPTURE(graph::describe(question.graph.work(work)));
      CHECK(alone >= price);
      if (alone == price) return;
      // A group with unevenly placed members is priced as the first of its kind.
      const bool by_itself = even(question.graph, actor) && actor.kind != engine::Actor::Kind::rank;
      uneven += !by_itself;
      if (as_priced && by_itself) CHECK(alone == price);
    });
  });
  MESSAGE(asked << " works at their places; " << machines << " machines on which all ways are as priced; " << uneven
                << " of groups that stand unevenly take longer");
  CHECK(asked > 10'000);
  CHECK(machines > 60);
}

static void check_same(const timeline::Timeline& one, const timeline::Timeline& other) {
  CHECK(one.makespan() == other.makespan());
  CHECK(one.start == other.start);
  CHECK(one.end == other.end);
}

// Few trainings have room for everything; with enough of every resource, none has contention.
TEST_CASE("where nothing is ever short, sharing changes nothing; where something is, auto shares") {
  std::size_t calm = 0, runs = 0;
  each_training(120, [&](Shared& shared) {
    ++runs;
    const auto usual = simulate(shared.question, "auto"), fluid = simulate(shared.question, "fluid");
    calm += usual.engine != "fluid";
    check_same(usual, fluid);
    CHECK(fluid.contention->without == simulate(shared.question, "events").makespan());
    const auto works = shared.question.graph.works();
    const auto has = [](const graph::Work& work) { return std::holds_alternative<graph::Overlapped>(work); };
    if (std::any_of(works.begin(), works.end(), has)) return;  // what its price counts on would have more room, too
    for (auto& resource : shared.question.resource_map->places.resources) resource.capacity *= 1024;
    const auto alone = simulate(shared.question, "auto");
    CHECK(alone.engine != "fluid");
    check_same(alone, simulate(shared.question, "events"));
    check_same(alone, simulate(shared.question, "fluid"));
  });
  MESSAGE("nothing was short in " << calm << " of " << runs << " runs");
  CHECK(calm > 5);
}

// In any interval, work that starts and ends within it takes at most the resource's capacity; and at the end the total
// equals exactly the demands.
TEST_CASE("no resource carries more than it can") {
  std::size_t whiles = 0, full = 0;
  each_training(50, [&](const Shared& shared) {
    timeline::Timeline timeline;
    timeline.start.assign(shared.question.graph.tasks(), Time{});
    timeline.end.assign(shared.question.graph.tasks(), engine::kNever);
    std::vector<fluid::Usage> usage;
    const auto outcome = engine::simulate_shared(shared.graph, shared.demands, timeline, &usage);
    REQUIRE(outcome.stuck.empty());

    struct Taken {
      Time start, end;
      Wide units;  // at least: what is held counts as long as alone
    };
    const auto resources = shared.places().resources.size();
    std::vector<std::vector<Taken>> all(resources);
    std::vector<Wide> carried(resources);
    each_run(shared.graph, [&](const engine::Actor& actor, WorkId work, std::uint64_t task) {
      std::map<std::uint32_t, Wide> taken;
      const auto row = phases(shared.demands, actor, work);
      for (const std::uint32_t number : row.order)
        for (const auto& flow : row.phases[number].flows)
          for (const auto& use : flow.uses) {
            const auto lasts = flow.moving.count() * row.phases[number].count;
            const Wide units = Wide{use.weight} * flow.rate * lasts;
            carried[use.resource] += units;
            taken[use.resource] += units + use.hold * lasts;
          }
      for (const auto& [resource, units] : taken)
        all[resource].push_back({timeline.start[task], timeline.end[task], units});
    });

    REQUIRE(usage.size() == resources);
    for (std::size_t r = 0; r < resources; ++r) {
      CAPTURE(cluster::name(shared.question.resource_map->resources[shared.places().resources[r].origin]));
      CHECK(double(usage[r].carried) == doctest::Approx(double(carried[r]) * 1e-12).epsilon(1e-9));
      CHECK(usage[r].busy <= 1 + 1e-9);
      full += usage[r].busy > .99;
      auto& taken = all[r];
      std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.end < b.end; });
      const auto froms = std::min<std::size_t>(taken.size(), 12);
      for (std::size_t k = 0; k < froms; ++k) {
        const Time from = taken[k * taken.size() / froms].start;
        Wide units = 0;
        bool ever_more = false;
        for (const auto& one : taken) {
          if (one.start < from) continue;
          units += one.units;
          ever_more = ever_more || units > shared.places().resources[r].capacity * (one.end - from).count();
          ++whiles;
        }
        CHECK_FALSE(ever_more);
      }
    }
  });
  MESSAGE(whiles << " whiles; " << full << " resources busy from start to end");
  CHECK(whiles > 100'000);
}

TEST_CASE("a trace counts how much slower than alone a rank is, and ends at nothing") {
  const auto run = answer::predict(scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml"));
  REQUIRE(run.timeline.contention);
  std::string trace;
  report::write_trace(run, [&](std::string_view part) { trace += part; });
  const auto json = nlohmann::json::parse(trace);
  std::size_t points = 0;
  double last = 1, most = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] != "contention") continue;
    ++points;
    last = event["args"]["lost"].get<double>();
    most = std::max(most, last);
  }
  CHECK(points > 0);
  CHECK(last == 0);
  CHECK(most > 0);
  CHECK(most < 1);
}
