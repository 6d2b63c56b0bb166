// `rehearse plan` against brute force: on random small spaces the same best layouts, to the picosecond, and every bound
// below what it bounds.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "answer/estimate.hpp"
#include "base/random.hpp"
#include "predicted.hpp"
#include "report/plan_report.hpp"
#include "search/bounds.hpp"
#include "search/search.hpp"

using namespace rehearsal;

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

class RandomSpace {
 public:
  explicit RandomSpace(std::uint64_t seed) : random_(Random(seed).next()) {
    const int nodes = one_of({1, 1, 2, 2, 4}), each = one_of({2, 4, 8});
    const bool experts = chance(20);
    const int layers = one_of({2, 4, 6, 8});
    text_ = "version: 1\n";
    text_ += experts ? fmt::format(
                           "model: {{family: moe, layers: {}, hidden: 1024, heads: 16, experts: 8, "
                           "experts_per_token: 2, expert_ffn: 256, vocabulary: 32000, sequence: 512}}\n",
                           layers)
                     : fmt::format(
                           "model: {{family: {}, layers: {}, hidden: {}, heads: 16, vocabulary: {}, sequence: {}}}\n",
                           one_of({"gpt", "llama"}), layers, one_of({512, 1024, 2048}), one_of({1024, 32000}),
                           one_of({256, 1024}));
    // The memory is such that about half of the layouts fit.
    text_ += fmt::format(
        "cluster:\n  gpu: {{use: {}, memory: {}MB}}\n  gpus_per_node: {}\n  nodes: {}\n  topology: rail-optimized\n"
        "  node_topology: nvswitch\n  links: {{nvlink: {{bandwidth: {}GB/s, latency: 3us}}, nic: {{bandwidth: {}Gb/s, "
        "latency: 5us, per_node: {}}}}}\n"
        "  host: {{memory: 1TB, memory_bandwidth: 200GB/s, cores: 64, pcie: {{bandwidth: 25GB/s, latency: 5us}}}}\n",
        one_of({"a100-80g-sxm", "h100-80g-sxm"}), one_of({2000, 2500, 3000, 4000, 6000, 80000}), each, nodes,
        one_of({50, 300}), one_of({25, 100, 400}), each);
    text_ += fmt::format(
        "batch: {{global: {}}}\ntraining: {{precision: bf16, attention: {}{}}}\nsoftware: {{use: {}{}}}\n",
        one_of({8, 16, 24, 32}), one_of({"flash", "flash", "unfused"}), chance(8) ? ", optimizer: lomo" : "",
        one_of({"megatron-2021", "megatron-2024", "titan-2024", "deepspeed-2021"}),
        one_of({"", ", blocking_sends: true", ", gradient_overlap: always", ", gradient_overlap: never",
                ", gather_overlap: true"}));
    if (chance(15)) text_ += "partition: balanced\n";
    if (chance(15)) text_ += "placement: [pipeline, tensor, context, expert, data]\n";
    const bool priced = chance(50);
    if (priced) {
      text_ += fmt::format("job: {{{}, gpu_hour: {}, currency: USD",
                           one_of({"steps: 300", "steps: 2000", "tokens: 30M"}), one_of({"2.5", "0.7"}));
      if (chance(60)) {
        // So many that about a tenth to a half of the time is lost.
        text_ +=
            fmt::format(", failures: {{per_1000_node_days: {}, detect: 5s, restart: 10s", one_of({100000, 400000}));
        const bool spares = chance(40);
        if (spares) text_ += fmt::format(", repair: 2min, without_spare: {}", one_of({"wait", "shrink"}));
        text_ += chance(20) ? ", slow: {per_1000_node_days: 100000, notice: 1min}}" : "}";
        if (spares) text_ += fmt::format(", spares: {}", one_of({0, 1}));
        text_ += fmt::format(", checkpoint: {{rate: {}GB/s{}{}}}", one_of({1, 10}), one_of({"", ", async: true"}),
                             one_of({"", ", interval: 20s"}));
      }
      text_ += "}\n";
    }
    text_ += "plan:\n";
    some("tensor", {"1", "2", "4"}, 50);
    some("context", {"1", "2"}, 80);
    some("micro", {"1", "2", "3", "4"}, 70);
    some("zero", {"0", "1", "2", "3"}, 60);
    some("recompute", {"none", "selective", "full"}, 80);
    some("sequence", {"true", "false"}, 60);
    some("chunks", {"1", "2", "3"}, 60);
    some("schedules", {"1f1b", "gpipe", "interleaved-1f1b", "zb-h1", "zb-v-hand", "dualpipev", "dualpipe", "1f1b-v"},
         90);
    if (chance(15))
      text_ +=
          "  offload: [{}, {optimizer: host}, {optimizer: host, gradients: host}, {activations: host}, "
          "{optimizer: host, gradients: host, parameters: host}]\n";
    if (chance(20)) text_ += "  margin: 10%\n";
    if (chance(15))
      text_ += "  objective: gpus\n";
    else if (priced && chance(60))
      text_ += "  objective: cost\n";
    if (nodes > 1 && chance(20)) text_ += fmt::format("  nodes: [{}, {}]\n", nodes, nodes / 2);
  }
  const std::string& text() const { return text_; }

 private:
  bool chance(int percent) { return random_.below(100) < std::uint64_t(percent); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[random_.below(all.size())];
  }
  // A list of one to three of them, or the key left to auto.
  void some(const char* key, std::vector<std::string> values, int percent) {
    if (!chance(percent)) return;
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random_.below(i)]);
    values.resize(std::min<std::size_t>(values.size(), 1 + random_.below(3)));
    text_ += fmt::format("  {}: [{}]\n", key, fmt::join(values, ", "));
  }
  Random random_;
  std::string text_;
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

// Of one layout: each bound is below what it bounds.
void check_bounds(const search::Space& space, const search::Layout& layout, const search::Found& found) {
  auto family = layout;
  family.zero = 0, family.offload = 0, family.chunks = 1, family.schedule = 0;
  const auto prices = search::family_prices(space, family);
  for (const auto& floor : prices.floors)
    if (floor.setting.zero == layout.zero && floor.setting.offload == layout.offload) {
      CHECK(floor.iteration <= found.iteration);
      CHECK(double(floor.device.count()) <= found.device);
      CHECK(prices.compute <= floor.iteration);
    }
  if (const auto least = space.runs().least(layout.cluster, found.iteration)) {
    CHECK(least->days <= found.run->days);
    CHECK(*least->cost <= *found.run->cost);
    CHECK(space.runs().least(layout.cluster, Time(found.iteration.count() / 2))->days <= least->days);
  }
  const auto s = space.scenario(layout);
  const auto& schedule = s.schedule.schedule();
  if (const auto problem = search::stages_of(prices, s))
    CHECK(search::passes_floor(schedule, *problem, {}) <= found.iteration);
  const auto staged = answer::stage(s);
  const auto passes = answer::passes(s, staged);
  if (!schedule.plan)
    CHECK(search::passes_floor(schedule, staged.problem, search::lanes(s, staged)) <= found.iteration);
  CHECK(*std::max_element(passes.end.begin(), passes.end.end()) <= found.iteration);
  CHECK(double(search::device_floor(s, staged, passes).count()) <= found.device);
}

}  // namespace

namespace {

std::vector<search::Found> brute_force(const search::Space& space, int& by_graph) {
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
    check_bounds(space, layout, *found);
    const auto s = space.scenario(layout);
    auto staged = answer::stage(s);
    const auto walked = answer::with_step_ends(s, staged, answer::passes(s, staged));
    if (walked) CHECK(*walked == found->iteration);
    by_graph += !walked;
    if (found->device <= search::capacity(space, layout)) brute.push_back(*found);
  }
  return brute;
}

// The same layouts in the same order, those alone that keep to the limits.
search::Outcome check_search(const search::Space& space, std::vector<search::Found> brute) {
  const auto goal = search::goal_of(space.file().space);
  std::erase_if(brute, [&](const auto& found) { return !goal.met_by(found.run); });
  const auto key = [&](const search::Found& f) {
    return search::key_of(goal, space.gpus(f.layout), f.iteration, f.run);
  };
  std::sort(brute.begin(), brute.end(), [&](const auto& a, const auto& b) {
    return key(a) < key(b) || (!(key(b) < key(a)) && a.layout < b.layout);
  });
  auto outcome = search::search(space, {.threads = 2, .full = false});
  CHECK(outcome.proven);
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
  return outcome;
}

// Limits that some of these keep to: by the days and the cost of two that are drawn.
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

}  // namespace

TEST_CASE("a plan is what brute force finds, and its bounds are bounds") {
  contract::settle();
  int spaces = 0, cut = 0, by_graph = 0, empty = 0, none = 0, limited = 0, late = 0, unreachable = 0, by_cost = 0;
  for (std::uint64_t seed = 1; spaces < 200; ++seed) {
    const RandomSpace drawn(seed);
    CAPTURE(drawn.text());
    const Written file(drawn.text());
    std::optional<search::Space> space;
    try {
      space.emplace(scenario::load_plan(file.path()));
    } catch (const UserError&) {
      ++empty;
      REQUIRE(empty < 400);
      continue;
    }
    if (space->layouts() > 40) continue;
    ++spaces;
    const auto brute = brute_force(*space, by_graph);
    const auto outcome = check_search(*space, brute);
    cut += outcome.counts.cut_memory > 0;
    none += outcome.top.empty();
    by_cost += space->file().space.objective == scenario::PlanSpace::Objective::cost;
    if (brute.empty() || !brute.front().run) continue;
    Random random(seed);
    const auto limits = drawn_limits(brute, random);
    CAPTURE(fmt::format("{}", fmt::join(limits, " ")));
    const search::Space within(scenario::load_plan(file.path(), limits));
    const auto kept = check_search(within, brute);
    ++limited;
    late += kept.counts.cut_limits + kept.counts.missed > 0;
    if (!kept.top.empty()) continue;
    // What misses by least.
    ++unreachable;
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
  CHECK(cut > 20);
  CHECK(by_graph > 100);
  CHECK(none > 5);
  CHECK(by_cost > 20);
  CHECK(limited > 40);
  CHECK(late > 30);
  CHECK(unreachable > 5);
  MESSAGE(spaces << " spaces, " << cut << " with a memory cut, " << none << " where nothing fits, " << by_cost
                 << " by cost; " << limited << " with limits, of which " << late << " cut something and " << unreachable
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
    sets.emplace_back("simulate.network=closed-form");
    const auto prediction = answer::predict(scenario::load(kSmall, sets));
    CHECK(prediction.summary.iteration == found.iteration);
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
    all.emplace_back("simulate.network=closed-form");
    const auto run = answer::predict(scenario::load(kSmall, all)).summary.job.value().expected;
    CHECK(run.days == found.run->days);
    CHECK(*run.cost == *found.run->cost);
  }
  const auto json = report::plan_json(space, outcome, "");
  for (const char* key : {"\"job\"", "\"days\"", "\"gpu_hours\"", "\"cost\"", "\"goodput\""})
    CHECK(contract::says(json, key));
  const auto text = report::plan_text(space, outcome, {100, false});
  CHECK(contract::says(text, "is cheaper, as long as"));
  CHECK(contract::says(text, "goodput %"));
  CHECK(contract::says(report::plan_csv(space, outcome), "days,gpu_hours,job_cost,goodput"));
}

TEST_CASE("layouts that a rule refuses are counted with what it says") {
  contract::settle();
  auto sets = kSets;
  sets.insert(sets.end(), {"training.optimizer=lomo", "batch.global=8", "plan.zero=[0, 1]"});
  const search::Space space(scenario::load_plan(kSmall, sets));
  const auto outcome = search::search(space);
  REQUIRE(outcome.refusals.size() == 2);
  for (const auto& refusal : outcome.refusals) CHECK(contract::says(refusal.why, "optimizer lomo"));
  const auto text = report::plan_text(space, outcome, {300, false});
  for (const char* why : {"cannot add up", "over replicas with zero 3 alone"}) CHECK(contract::says(text, why));
}

TEST_CASE("replicas that one level of ZeRO alone allows are searched") {
  contract::settle();
  const search::Space space(scenario::load_plan(PROJECT_ROOT "/scenarios/llama-65b-lomo-8xrtx3090.yaml",
                                                {"plan={tensor: 1, context: 1, pipeline: 1}"}));
  const auto outcome = search::search(space, {.full = false});
  REQUIRE(!outcome.top.empty());
  CHECK(outcome.top.front().layout.data == 8);
  CHECK(outcome.top.front().layout.zero == 3);
}

TEST_CASE("a limit that is out of reach names what misses it by least") {
  contract::settle();
  const auto text = [](std::vector<std::string> more) {
    auto sets = kSets;
    sets.emplace_back("job={tokens: 1T, gpu_hour: 2.5, currency: USD}");
    sets.insert(sets.end(), more.begin(), more.end());
    const search::Space space(scenario::load_plan(kSmall, sets));
    const auto outcome = search::search(space);
    CHECK(outcome.top.empty());
    return report::plan_text(space, outcome, {200, false});
  };
  CHECK(contract::says(text({"plan.deadline=1d"}), "Nothing that fits is done within 1.00 days: the fastest takes "));
  CHECK(contract::says(text({"job.deadline=1d"}), "Nothing that fits is done within 1.00 days: the fastest takes "));
  CHECK(contract::says(text({"plan.budget=1k"}), "Nothing that fits costs 1 k USD or less: the cheapest costs "));
  CHECK(contract::says(text({"plan.budget=1k", "plan.deadline=10000d"}),
                       "Nothing that fits and is done within 10000.00 days costs 1 k USD or less: the cheapest"));
}

TEST_CASE("threads change nothing") {
  contract::settle();
  const search::Space space(scenario::load_plan(kSmall, kSets));
  const auto one = search::search(space, {.threads = 1}), three = search::search(space, {.threads = 3});
  CHECK(report::plan_json(space, one, "") == report::plan_json(space, three, ""));
}

TEST_CASE("a search that is stopped says how far the best may be") {
  contract::settle();
  const search::Space space(scenario::load_plan(kSmall, kSets));
  int rounds = 0;
  const auto stopped = search::search(space, {.full = false, .go_on = [&](const auto&, auto) { return ++rounds < 3; }});
  const auto whole = search::search(space, {.full = false});
  REQUIRE(!stopped.top.empty());
  const double best = double(stopped.top.front().iteration.count()),
               optimum = double(whole.top.front().iteration.count());
  CHECK(best >= optimum);
  CHECK(best * (1 - stopped.gap) <= optimum);
}

TEST_CASE("spaces that hold nothing, or nothing that fits") {
  contract::settle();
  const auto refusal = [](const std::string& set) -> std::string {
    try {
      const search::Space space(scenario::load_plan(kSmall, {set}));
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  };
  CHECK(contract::says(refusal("plan={tensor: 7}"), "plan.tensor"));
  CHECK(contract::says(refusal("plan={tensro: 8}"), "did you mean 'tensor'?"));
  CHECK(contract::says(refusal("plan={schedules: [seq1f1b]}"), "seq1f1b"));
  CHECK(contract::says(refusal("plan={objective: cost}"), "'objective' cost needs a price"));
  CHECK(contract::says(refusal("plan={budget: 1M}"), "'budget' needs a price"));
  CHECK(contract::says(refusal("plan={deadline: 30d}"), "'deadline' is that of a training"));
  CHECK(contract::says(refusal("plan={deadline: 30}"), "no unit"));
  CHECK(contract::says(refusal("plan={deadline: 0}"), "above zero"));
  CHECK(contract::says(refusal("plan={data: [3]}"), "plan.data"));
  auto sets = kSets;
  sets.emplace_back("cluster.gpu.memory=1GB");
  const search::Space space(scenario::load_plan(kSmall, sets));
  const auto outcome = search::search(space);
  CHECK(outcome.top.empty());
  REQUIRE(outcome.nearest);
  CHECK(outcome.nearest->device > outcome.nearest->capacity);
}
