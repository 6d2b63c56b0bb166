// The worked examples of CONTRIBUTING.md, compiled from the page itself (contributing_example.cmake): a schedule, which
// keeps the contract of schedules like any of our schedules, and an optimizer.
#include "answer/predict.hpp"
#include "models/registry.hpp"
#include "report/run_report.hpp"
#include "schedule_contract.hpp"

namespace rehearsal::schedule {
void register_contributing_example(Registry& registry);  // the page's name for it is a macro here
}
namespace rehearsal::models {
void register_example_optimizer(Registry& registry);
}

using namespace rehearsal::schedule;

namespace {

const Registry& example() {
  static const Registry shelf = [] {
    Registry filled("schedule");
    register_contributing_example(filled);
    return filled;
  }();
  return shelf;
}

}  // namespace

TEST_CASE("the page holds one schedule, with a closed form to be checked") {
  REQUIRE(example().names().size() == 1);
  CHECK(example().begin()->second.closed_form);
  contract::says_what_it_is(example());
}

TEST_CASE("a small grid: every cell once, replay and rendezvous complete, formulas hold") {
  contract::small_grid(example());
}

TEST_CASE("random problems, stages alike: closed forms hold wherever they are given") {
  contract::random_alike(example());
}

TEST_CASE("random problems, every stage different, all knobs") { contract::random_different(example()); }

// The figures that the page promises for its command: two rounds of (2p-1)S + 2(p-1)C = 7 * 30 + 6 * 5 = 240 ms; and
// 1F1B, which fills only once but pays the transfers in every round trip of p micro-batches: 11 * 30 + (6 * 3 - 2) * 5
// = 410 ms. Both hold p = 4 micro-batches on rank 0.
TEST_CASE("the command of the page shows what the page says") {
  const auto ms = [](std::int64_t n) { return n * rehearsal::seconds(1e-3); };
  const Problem problem = uniform_problem(4, 8, 1, ms(10), ms(10), ms(10), ms(5));
  const Replay rounds = replay(example().begin()->second, problem), one = replay(registry().at("1f1b"), problem);
  CHECK(rounds.cost == ms(480));
  CHECK(one.cost == ms(410));
  CHECK(rounds.in_flight_FB[0] == 4);
  CHECK(one.in_flight_FB[0] == 4);
}

TEST_CASE("the page's optimizer keeps half of AdamW's moments, in every layout") {
  using namespace rehearsal;
  models::Registry filled("optimizer");
  models::register_example_optimizer(filled);
  REQUIRE(filled.names().size() == 1);
  const auto bytes_of = [](const std::vector<std::string>& sets, const models::Optimizer* optimizer) {
    auto scenario = scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", sets);
    if (optimizer) scenario.concrete->training.optimizer = optimizer;
    const auto& rank = answer::predict(scenario).summary.ranks.front();
    return rank.memory[static_cast<std::size_t>(graph::MemoryCategory::optimizer)].count();
  };
  for (const char* layout : {"{tensor: 8}", "{data: 8, zero: 1}", "{tensor: 2, pipeline: 2, data: 2, zero: 3}"}) {
    CAPTURE(layout);
    const std::vector<std::string> sets{fmt::format("parallelism={}", layout), "batch={global: 8, micro: 1}",
                                        "model={use: llama3-8b, layers: 4}"};
    // A master copy and two moments of 4 bytes each, or one.
    const auto adamw = bytes_of(sets, nullptr), lion = bytes_of(sets, &filled.begin()->second);
    CHECK(double(lion) == doctest::Approx(double(adamw) * 8 / 12).epsilon(1e-6));
  }
}

TEST_CASE("the page's figure is one line, and JSON, schema and facts of a page have it") {
  using namespace rehearsal;
  using namespace rehearsal::report;
  const auto shown = Shown<Result>()
#include "figure_example.inc"
      ;
  REQUIRE(shown.items().size() == 1);
  const auto result = answer::predict(scenario::load(PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml"));
  const auto json = shown.json(result);
  CHECK(find(json, "/steps_per_day")->real() == doctest::Approx(86400 / 1.456749));
  CHECK(find(schema("", shown.items()), "/properties/steps_per_day/type/0")->text() == "number");
  const auto fact = Showing(json, shown.items()).fact("/steps_per_day");
  CHECK(fact.name == "steps a day");
  CHECK(fact.value.json == "/steps_per_day");
}
