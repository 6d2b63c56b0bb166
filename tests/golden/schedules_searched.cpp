// The automatic schedules find the same orders as the original schedulers (tests/golden/schedules/README.md).
#include "reference_cases.hpp"
#include "report/schedule_report.hpp"
#include "schedule/zb_heuristic.hpp"
#include "schedule/zb_v_heuristic.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using namespace rehearsal::schedule::reference;

namespace {

// A case with times and memory per stage.
Problem problem_by_stage(const json& row) {
  const std::uint32_t p = row.at("p");
  Problem problem =
      uniform_problem(p, row.at("m"), row.at("v"), Time(), Time(), Time(), Time(row.at("C").get<std::int64_t>()));
  const auto times = [&](const char* key) {
    std::vector<Time> result;
    for (const std::int64_t t : per_rank<std::int64_t>(row.at(key), problem.stages())) result.emplace_back(t);
    return result;
  };
  problem.forward = times("F");
  problem.input_gradient = times("B");
  problem.weight_gradient = times("W");
  problem.activation = per_rank<double>(row.at("mem").at("f"), problem.stages());
  problem.weight_hold = per_rank<double>(row.at("mem").at("w"), problem.stages());
  for (double& hold : problem.weight_hold) hold = -hold;
  const auto limit = row.at("mem").find("limit");
  if (limit != row.at("mem").end() && !limit->is_null()) problem.memory_limit = per_rank<double>(*limit, p).front();
  return problem;
}

}  // namespace

TEST_CASE("zb-auto as found by Zero Bubble's scheduler, setting by setting") {
  each_case("zb_heuristic.jsonl", 177, [](json row) {
    CAPTURE(row.at("id").get<std::string>());
    const Problem problem = problem_by_stage(row);
    const ZbHeuristic found = zb_heuristic(problem);
    std::vector<std::int64_t> costs;
    for (const Time cost : found.costs) costs.push_back(cost.count());
    CHECK(costs == row.at("combos").get<std::vector<std::int64_t>>());
    CHECK(found.best == row.at("best_combo").get<std::size_t>());
    CHECK(found.costs[found.best].count() == row.at("cost").get<std::int64_t>());
    CHECK(found.costs[found.best] >= schedule::evaluate(registry().at("zb-auto"), problem, {}).lower_bound);
    compare(registry().at("zb-auto"), problem, row);
  });
}

TEST_CASE("zb-v as found by the peer's scheduler, setting by setting") {
  each_case("zbv.jsonl", 65, [](json row) {
    CAPTURE(row.at("id").get<std::string>());
    const Problem problem = problem_by_stage(row);
    const ZbVHeuristic found = zb_v_heuristic(problem);
    std::vector<std::int64_t> bubbles;
    for (const Time bubble : found.bubbles) bubbles.push_back(bubble.count());
    CHECK(bubbles == row.at("combos_max_bubble").get<std::vector<std::int64_t>>());
    // The original's own estimate of the cost: no rank does more than its work, so the largest bubble decides.
    const Time work = 2 * std::int64_t(problem.microbatches) *
                      (problem.forward[0] + problem.input_gradient[0] + problem.weight_gradient[0]);
    CHECK((work + found.bubbles[found.best]).count() == row.at("peer_cost_estimate").get<std::int64_t>());
    const auto whole = schedule::evaluate(registry().at("zb-v"), problem, {});
    CHECK(whole.replay.cost >= whole.lower_bound);
    compare(registry().at("zb-v"), problem, row);
    if (problem.memory_limit != 2 * problem.ranks * problem.activation[0]) return;
    Problem unlimited = problem;
    unlimited.memory_limit.reset();  // 2p chunk activations are the default
    CHECK(order_sha256(registry().at("zb-v"), unlimited) == row.at("sha256").get<std::string>());
  });
}

// The cases include 12 with the paper's profiled times (Table 9).
TEST_CASE("zb-1p and zb-2p are zb-auto with limits of p and 2p activations") {
  std::size_t seen = 0;
  each_case("zb_heuristic.jsonl", 177, [&](json row) {
    if (row.at("mem").at("f").is_array() || row.at("mem").at("limit").is_null()) return;
    CAPTURE(row.at("id").get<std::string>());
    Problem problem = problem_by_stage(row);
    const double activations = *problem.memory_limit / (problem.ranks * problem.activation[0]);
    if (activations != 1 && activations != 2) return;
    ++seen;
    problem.memory_limit.reset();
    compare(registry().at(activations == 1 ? "zb-1p" : "zb-2p"), problem, row);
  });
  CHECK(seen >= 24);
}
