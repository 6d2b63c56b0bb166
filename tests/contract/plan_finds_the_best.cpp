// `rehearse plan` against brute force with contention on small random spaces: the same best layouts, to the picosecond,
// bounds that hold, independence of the order of lists, and nothing better on a part of the space. What it says:
// tests/cli/plan.cli.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "../nightly.hpp"
#include "answer/estimate.hpp"
#include "predicted.hpp"
#include "random_space.hpp"
#include "report/plan_report.hpp"
#include "search/bounds.hpp"
#include "search/search.hpp"

using namespace rehearsal;
using contract::RandomSpace;

namespace {

// A file of its own, gone with the test.
class Written {
 public:
  explicit Written(const std::string& text)
      : path_((std::filesystem::temp_directory_path() / fmt::format("plan-{}.yaml", ::getpid())).string()) {
    std::ofstream(path_) << text;
  }
  ~Written() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<search::Layout> all_layouts(const search::Space& space) {
  std::vector<search::Layout> all;
  for (const auto& family : space.families())
    for (const auto& order : space.orders(family.layout))
      for (const auto& setting : space.settings(family.layout)) {
        auto layout = family.layout;
        layout.chunks = order.chunks, layout.schedule = order.schedule;
        layout.zero = setting.zero, layout.offload = setting.offload;
        all.push_back(layout);
      }
  return all;
}

// Without contention, by coarse tasks. Those of operators (of tensor groups whose GPUs stand unlike) may take less: in
// a coarse task, what a kernel and the gather beside it take from each other is part of the price
// (sim/design/sharing.md).
Time coarse_alone(scenario::Scenario scenario) {
  scenario.simulate.contention = scenario::Contention::off;
  return answer::predict(scenario, answer::Options::time_alone()).summary.iteration;
}

// For one layout: each bound is below the value it bounds.
void check_bounds(const search::Space& space, const search::Layout& layout, const search::Found& found, Time alone) {
  auto family = layout;
  family.zero = 0, family.offload = 0, family.chunks = 1, family.schedule = 0;
  const auto prices = search::family_prices(space, family);
  for (const auto& floor : prices.floors)
    if (floor.setting.zero == layout.zero && floor.setting.offload == layout.offload) {
      CHECK(floor.iteration <= alone);
      CHECK(double(floor.device.count()) <= found.device);
      CHECK(prices.compute <= floor.iteration);
    }
  for (const auto& kin : space.kins())
    if (std::any_of(kin.begin(), kin.end(), [&](const auto* one) { return one->layout == family; }))
      CHECK(search::compute_of(space, family, search::family_compute(space, kin.front()->layout).each) <=
            prices.compute);
  // Contention only adds.
  CHECK(found.alone <= alone);
  CHECK(alone <= found.iteration);
  if (const auto least = space.runs().least(layout.base, found.iteration)) {
    CHECK(least->days <= found.run->days);
    CHECK(*least->cost <= *found.run->cost);
    if (least->energy_mwh) CHECK(*least->energy_mwh <= *found.run->energy_mwh);
    CHECK(space.runs().least(layout.base, Time(found.iteration.count() / 2))->days <= least->days);
  }
  const auto s = space.scenario(layout);
  const auto& schedule = s.schedule.schedule();
  if (const auto problem = search::stages_of(prices, s)) CHECK(search::passes_floor(schedule, *problem, {}) <= alone);
  const auto staged = answer::stage(s);
  const auto passes = answer::passes(s, staged);
  if (!schedule.plan) CHECK(search::passes_floor(schedule, staged.problem, search::lanes(s, staged)) <= alone);
  CHECK(*std::max_element(passes.end.begin(), passes.end.end()) <= alone);
  CHECK(double(search::device_floor(s, staged, passes).count()) <= found.device);
}

}  // namespace

namespace {

std::vector<search::Found> brute_force(const search::Space& space, int& by_graph, int& contended) {
  std::vector<search::Found> brute;
  const auto layouts = all_layouts(space);
  CHECK(layouts.size() == space.layouts());
  for (const auto& layout : layouts) {
    const auto found = search::evaluate(space, layout);
    if (!found) continue;
    std::string said;
    for (const auto& [key, value] : space.sets(layout)) said += key + "=" + value + " ";
    CAPTURE(said);
    CAPTURE(to_seconds(found->iteration));
    const auto s = space.scenario(layout);
    const Time alone = coarse_alone(s);
    check_bounds(space, layout, *found, alone);
    auto staged = answer::stage(s);
    const auto walked = answer::with_step_ends(s, staged, answer::passes(s, staged));
    if (walked) CHECK(*walked == alone);
    by_graph += !walked, contended += found->alone < found->iteration;
    if (found->device <= search::capacity(space, layout)) brute.push_back(*found);
  }
  return brute;
}

// The best of each cluster; `brute` is sorted and keeps to the limits.
void check_clusters(const search::Space& space, const std::vector<search::Found>& brute,
                    const search::Outcome& outcome) {
  CHECK(outcome.clusters.size() == (space.clusters() > 1 ? space.clusters() : 0));
  for (std::size_t i = 0; i < outcome.clusters.size(); ++i) {
    const auto best =
        std::find_if(brute.begin(), brute.end(), [&](const auto& found) { return space.cluster(found.layout) == i; });
    const auto& of = outcome.clusters[i];
    REQUIRE(of.best.has_value() == (best != brute.end()));
    if (!of.best) continue;
    CHECK(of.best->layout == best->layout);
    CHECK(of.best->iteration == best->iteration);
  }
}

// The same layouts in the same order, restricted to those within the limits.
search::Outcome check_search(const search::Space& space, std::vector<search::Found> brute) {
  const auto goal = search::goal_of(space.file().space);
  std::erase_if(brute, [&](const auto& found) { return !goal.met_by(found.run); });
  const auto key = [&](const search::Found& f) { return search::key_of(goal, space.gpus(f.layout), f.step, f.run); };
  std::sort(brute.begin(), brute.end(), [&](const auto& a, const auto& b) {
    return key(a) < key(b) || (!(key(b) < key(a)) && a.layout < b.layout);
  });
  auto outcome = search::search(space, {.threads = 2, .predict = false});
  CHECK(outcome.proven);
  CHECK(outcome.places == outcome.top.size());
  CHECK(outcome.counts.anomalies == 0);
  CHECK(outcome.gap == 0);
  REQUIRE(outcome.top.size() == std::min<std::size_t>(10, brute.size()));
  for (std::size_t i = 0; i < outcome.top.size(); ++i) {
    CHECK(outcome.top[i].layout == brute[i].layout);
    CHECK(outcome.top[i].iteration == brute[i].iteration);
    CHECK(outcome.top[i].device == brute[i].device);
    CHECK(outcome.top[i].run.has_value() == brute[i].run.has_value());
    if (brute[i].run) CHECK(outcome.top[i].run->days == brute[i].run->days);
  }
  const auto& c = outcome.counts;
  CHECK(c.layouts == c.priced + c.cut_memory + c.cut_bound + c.refused + c.cut_limits);
  std::uint64_t refused = 0;
  for (const auto& refusal : outcome.refusals) refused += refusal.layouts;
  CHECK(refused == c.refused);
  check_clusters(space, brute, outcome);
  return outcome;
}

// Limits that some layouts meet: the days and cost of two random layouts.
std::vector<std::string> drawn_limits(const std::vector<search::Found>& brute, Random& random) {
  std::vector<std::string> sets;
  const auto one = [&]() -> const job::Totals& { return *brute[random.below(brute.size())].run; };
  // Now and then out of reach.
  const double share = random.below(4) == 0 ? .3 : 1.01;
  const auto which = random.below(3);
  if (which != 0) sets.push_back(fmt::format("plan.deadline={}s", one().days * 86400 * share));
  if (which != 1) sets.push_back(fmt::format("plan.budget={}", *one().cost * share));
  return sets;
}

// A space with what each of these keys chooses from as a list. It is not the same one: a framework that lacks a value
// is searched with it where it is listed, and without it where the key is left to auto.
std::vector<std::string> as_lists(const search::Space& space) {
  std::map<std::string, std::set<std::string>> values;
  for (const auto& layout : all_layouts(space)) {
    values["tensor"].insert(fmt::format("{}", layout.tensor)), values["micro"].insert(fmt::format("{}", layout.micro));
    values["zero"].insert(fmt::format("{}", layout.zero));
    values["schedules"].insert(space.schedules()[layout.schedule]);
  }
  std::vector<std::string> sets;
  for (const auto& [key, all] : values) sets.push_back(fmt::format("plan.{}=[{}]", key, fmt::join(all, ", ")));
  return sets;
}

// The order of lists does not matter. With lists instead of auto nothing is worse. A part of lists has nothing better,
// and a part with one layout finds it.
void check_parts(const RandomSpace& drawn, const std::string& path, const search::Space& space,
                 const search::Outcome& outcome, Random& random) {
  const search::Space other(scenario::load_plan(path, drawn.reversed()));
  const auto goal = search::goal_of(space.file().space);
  const auto again = search::search(other, {.predict = false});
  REQUIRE(again.top.size() == outcome.top.size());
  for (std::size_t i = 0; i < outcome.top.size(); ++i)
    CHECK(other.sets(again.top[i].layout) == space.sets(outcome.top[i].layout));
  if (outcome.found.empty()) return;
  const auto key = [&](const search::Space& of, const search::Found& f) {
    return search::key_of(goal, of.gpus(f.layout), f.step, f.run);
  };
  const search::Space listed(scenario::load_plan(path, as_lists(space)));
  const auto whole = search::search(listed, {.predict = false});
  CHECK(!(key(space, outcome.top.front()) < key(listed, whole.top.at(0))));
  const auto& one = whole.found[random.below(whole.found.size())];
  const auto& l = one.layout;
  std::vector<std::string> part{fmt::format("plan.tensor={}", l.tensor), fmt::format("plan.micro={}", l.micro),
                                fmt::format("plan.schedules={}", listed.schedules()[l.schedule]),
                                fmt::format("plan.zero={}", l.zero)};
  const search::Space within(scenario::load_plan(path, part));
  const auto found = search::search(within, {.predict = false});
  REQUIRE(!found.top.empty());
  CHECK(!(key(within, found.top.front()) < key(listed, whole.top.front())));
  CHECK(!(key(listed, one) < key(within, found.top.front())));
}

}  // namespace

TEST_CASE("a plan is what brute force finds, and its bounds are bounds") {
  contract::settle();
  const char* asked = std::getenv("REHEARSAL_LAW_CASES");
  const int cases = std::max(nightly() ? 200 : 25, asked ? std::atoi(asked) : 0);
  int spaces = 0, cut = 0, by_graph = 0, empty = 0, none = 0, limited = 0, late = 0, unreachable = 0, by_cost = 0;
  int by_energy = 0;
  int contended = 0, several = 0, apart = 0;
  for (std::uint64_t seed = 1; spaces < cases; ++seed) {
    const RandomSpace drawn(seed);
    CAPTURE(drawn.text());
    const Written file(drawn.text());
    std::optional<search::Space> space;
    try {
      space.emplace(scenario::load_plan(file.path()));
    } catch (const UserError&) {
      ++empty;
      REQUIRE(empty < 4 * cases);
      continue;
    }
    if (space->layouts() > (space->clusters() > 1 ? 48 : 24)) continue;
    ++spaces;
    const auto brute = brute_force(*space, by_graph, contended);
    const auto outcome = check_search(*space, brute);
    Random random(seed);
    check_parts(drawn, file.path(), *space, outcome, random);
    cut += outcome.counts.cut_memory > 0;
    none += outcome.top.empty();
    several += space->clusters() > 1;
    apart += outcome.clusters.size() > 1 && outcome.clusters[0].best && outcome.clusters[1].best;
    by_cost += space->file().space.objective == scenario::PlanSpace::Objective::cost;
    by_energy += space->file().space.objective == scenario::PlanSpace::Objective::energy;
    if (brute.empty() || !brute.front().run) continue;
    const auto limits = drawn_limits(brute, random);
    CAPTURE(fmt::format("{}", fmt::join(limits, " ")));
    const search::Space within(scenario::load_plan(file.path(), limits));
    const auto kept = check_search(within, brute);
    ++limited;
    late += kept.counts.cut_limits + kept.counts.missed > 0;
    if (!kept.top.empty()) continue;
    // What misses by least, on each cluster too.
    ++unreachable;
    for (std::size_t i = 0; i < kept.clusters.size(); ++i) {
      const bool fits =
          std::any_of(brute.begin(), brute.end(), [&](const auto& found) { return within.cluster(found.layout) == i; });
      CHECK(kept.clusters[i].closest.has_value() == fits);
    }
    const auto goal = search::goal_of(within.file().space);
    REQUIRE(kept.closest);
    const auto in_time = [&](const auto& found) { return goal.in_time(*found.run); };
    const bool some = goal.budget && std::any_of(brute.begin(), brute.end(), in_time);
    for (const auto& found : brute) {
      if (!some)
        CHECK(kept.closest->run->days <= found.run->days);
      else if (in_time(found))
        CHECK(*kept.closest->run->cost <= *found.run->cost);
    }
    CHECK(in_time(*kept.closest) == some);
  }
  // The cases are there.
  const int share = 100 / std::min(100, cases);
  CHECK(cut > 10 / share);
  CHECK(by_graph > 50 / share);
  CHECK(contended > 50 / share);
  CHECK(none > 2 / share);
  CHECK(by_cost > 10 / share);
  CHECK(by_energy > 2 / share);
  CHECK(several > 20 / share);
  CHECK(apart > 10 / share);
  CHECK(limited > 20 / share);
  CHECK(late > 15 / share);
  CHECK(unreachable > 2 / share);
  MESSAGE(spaces << " spaces, " << contended << " layouts with contention, " << cut << " with a memory cut, " << none
                 << " where nothing fits, " << several << " of two clusters, " << apart
                 << " of these with a best on each, " << by_cost << " by cost, " << by_energy << " by energy; "
                 << limited << " with limits, of which " << late << " cut something and " << unreachable
                 << " are out of reach");
}

namespace {

constexpr const char* kSmall = PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml";
const std::vector<std::string> kSets{
    "plan={tensor: [1, 2, 4, 8], context: 1, micro: [1, 2], schedules: [1f1b, zb-h1]}"};

}  // namespace

TEST_CASE("the keys of a layout make the file say it") {
  contract::settle();
  const search::Space space(scenario::load_plan(kSmall, kSets));
  const auto outcome = search::search(space);
  REQUIRE(outcome.top.size() == 10);
  for (const auto& found : outcome.top) {
    auto sets = kSets;
    for (const auto& [key, value] : space.sets(found.layout)) sets.push_back(key + "=" + value);
    const auto prediction = answer::predict(scenario::load(kSmall, sets));
    CHECK(prediction.summary.iteration == found.iteration);
    CHECK(prediction.summary.iteration == found.full.summary.iteration);
    CHECK(prediction.summary.peak.device == found.device);
    // As a file of its own, without the section.
    const Written file(scenario::standalone(kSmall, sets));
    const auto alone = answer::predict(scenario::load(file.path()));
    CHECK(alone.summary.iteration == found.iteration);
  }
}

TEST_CASE("a training that is searched is the one that run predicts") {
  contract::settle();
  auto sets = kSets;
  sets.emplace_back("job={tokens: 1T, gpu_hour: 2.5, currency: USD, failures: {per_1000_node_days: 50}}");
  sets.emplace_back("plan.objective=cost");
  const search::Space space(scenario::load_plan(kSmall, sets));
  const auto outcome = search::search(space, {.best = 3});
  REQUIRE(outcome.top.size() == 3);
  for (const auto& found : outcome.top) {
    auto all = sets;
    for (const auto& [key, value] : space.sets(found.layout)) all.push_back(key + "=" + value);
    const auto run = answer::predict(scenario::load(kSmall, all)).summary.job.value().expected;
    CHECK(run.days == found.run->days);
    CHECK(*run.cost == *found.run->cost);
  }
  const auto json = report::plan_answer().json_text({space, outcome});
  for (const char* key : {"\"job\"", "\"days\"", "\"gpu_hours\"", "\"cost\"", "\"goodput\""})
    CHECK(contract::says(json, key));
  const auto text = report::plan_text({space, outcome}, {100, false});
  CHECK(contract::says(text, "is cheaper; that took"));
  CHECK(contract::says(text, "of the time trains"));
  CHECK(contract::says(report::plan_csv({space, outcome}), "days,gpu_hours,job_cost,goodput"));
}

TEST_CASE("a search that is stopped says how far the best may be") {
  contract::settle();
  const search::Space space(scenario::load_plan(kSmall, kSets));
  int rounds = 0;
  const auto stopped = search::search(space, {.predict = false, .go_on = [&](const auto&) { return ++rounds < 3; }});
  const auto whole = search::search(space, {.predict = false});
  REQUIRE(!stopped.top.empty());
  const double best = double(stopped.top.front().iteration.count()),
               optimum = double(whole.top.front().iteration.count());
  CHECK(best >= optimum);
  CHECK(best * (1 - stopped.gap) <= optimum);
}

namespace {

std::vector<std::string> zeros_and_schedules(const search::Space& space) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& one) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  };
  for (const auto& layout : all_layouts(space)) {
    const std::string name = space.scenario(layout).concrete->framework.name;
    add(fmt::format("{} {}", name, space.schedules()[layout.schedule])), add(fmt::format("{} {}", name, layout.zero));
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a plan keeps to what the framework has, and may choose among several") {
  contract::settle();
  const auto space = [](const std::string& plan) {
    return search::Space(scenario::load_plan(
        kSmall, {"framework=megatron-2025", "plan={tensor: 1, context: 1, micro: 1, recompute: none" + plan + "}"}));
  };
  CHECK(zeros_and_schedules(space("")) == std::vector<std::string>{"megatron-2025 0", "megatron-2025 1",
                                                                   "megatron-2025 1f1b",
                                                                   "megatron-2025 interleaved-1f1b"});
  // A listed value that a framework lacks is still searched, and reported.
  const auto asked = space(", zero: [1, 3]");
  REQUIRE(asked.file().notes.size() == 1);
  CHECK(contract::says(asked.file().notes.front(), "plan.zero lists 3, which megatron-2025 does not support"));
  // With two as with one.
  const auto both = space(", framework: [titan-2024, megatron-2025], zero: [1, 3], pipeline: 1, schedules: 1f1b");
  REQUIRE(both.file().notes.size() == 2);
  CHECK(contract::says(both.file().notes[1], "plan.zero lists 1, which titan-2024 does not support"));
  CHECK(zeros_and_schedules(both) == std::vector<std::string>{"megatron-2025 1", "megatron-2025 1f1b",
                                                              "megatron-2025 3", "titan-2024 1", "titan-2024 1f1b",
                                                              "titan-2024 3"});
  // Left to auto, each keeps to its own.
  const auto own = space(", framework: [titan-2024, megatron-2025], pipeline: 1, schedules: 1f1b");
  CHECK(own.file().notes.empty());
  CHECK(zeros_and_schedules(own) == std::vector<std::string>{"megatron-2025 0", "megatron-2025 1", "megatron-2025 1f1b",
                                                             "titan-2024 0", "titan-2024 1f1b", "titan-2024 2",
                                                             "titan-2024 3"});
  const auto best = [&](const std::string& framework) {
    const auto sizes = space(", framework: " + framework + ", pipeline: [1, 2], schedules: 1f1b");
    const auto outcome = search::search(sizes, {.predict = false});
    REQUIRE(!outcome.top.empty());
    CHECK(sizes.sets(outcome.top.front().layout).front().first == "framework");
    return outcome.top.front().iteration;
  };
  CHECK(best("[titan-2024, megatron-2025]") == std::min(best("titan-2024"), best("megatron-2025")));
  // DeepSpeed's pipelines have ZeRO-1 at most.
  const search::Space deep(scenario::load_plan(kSmall, {"framework=deepspeed-2023", "plan={tensor: 1, context: 1}"}));
  for (const auto& layout : all_layouts(deep)) CHECK((layout.pipeline == 1 || layout.zero <= 1));
  const auto listed = space(", framework: deepspeed-2023, zero: [1, 2], pipeline: [1, 2]");
  REQUIRE(listed.file().notes.size() == 1);
  CHECK(contract::says(listed.file().notes[0],
                       "plan.zero lists 2, which deepspeed-2023 supports only without a pipeline"));
  // Megatron takes activations off the device with neither a pipeline nor recomputation.
  const search::Space alone(scenario::load_plan(
      kSmall, {"framework=megatron-2025",
               "plan={tensor: 1, context: 1, pipeline: [1, 2], micro: 1, recompute: [none, full], zero: 1, offload: "
               "[{}, {activations: host}]}"}));
  for (const auto& layout : all_layouts(alone))
    CHECK((layout.offload == 0 || (layout.pipeline == 1 && layout.recompute == models::Recompute::none)));
  // The kind of context parallelism is that of the file.
  const auto kinds = [&](const std::string& kind, const std::string& context) {
    const search::Space of(scenario::load_plan(
        kSmall, {"framework=deepspeed-2023", "training.context=" + kind,
                 "plan={tensor: 1, pipeline: 1, micro: 1, recompute: none, zero: 1" + context + "}"}));
    std::size_t cut = 0;
    for (const auto& layout : all_layouts(of)) cut += layout.context > 1;
    return std::pair(cut, of.file().notes.size());
  };
  CHECK(kinds("ring", "") == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(kinds("ring", ", context: [1, 2]") == std::pair<std::size_t, std::size_t>(1, 1));
  CHECK(kinds("all-to-all", "").first > 0);
}
