// Schedules of two chunks per rank in a V: orders, costs and peaks equal to those of the original generators
// (tests/golden/schedules/README.md).
#include "reference_cases.hpp"

using namespace rehearsal;
using namespace rehearsal::schedule;
using nlohmann::json;

TEST_CASE("zb-v-hand as in torch.distributed.pipelining; 1f1b-v, v-min and v-half as in sail-sg's schedulers") {
  const std::map<std::string, std::string> names{
      {"pt_zbv", "zb-v-hand"}, {"1f1b_v", "1f1b-v"}, {"v_min", "v-min"}, {"v_half", "v-half"}};
  reference::each_case("v_placement.jsonl", 90, [&](const json& row) {
    reference::compare(registry().at(names.at(row.at("gen"))), reference::problem_of(row), row);
  });
}

// The original fails when no building block fits into the limit (3 chunks on 2 ranks): there our schedule runs one
// micro-batch at a time.
TEST_CASE("v-adaptive as sail-sg's search, and within the limit where that finds nothing") {
  std::size_t alike = 0;
  reference::each_case("v_adaptive.jsonl", 6, [&](const json& row) {
    if (!row.contains("error")) {
      reference::compare(registry().at("v-adaptive"), reference::problem_of(row), row);
      ++alike;
      return;
    }
    Problem problem = uniform_problem(row.at("p"), row.at("m"), 2, Time(10), Time(10), Time(10), Time(0));
    problem.weight_hold = problem.activation;
    problem.memory_limit = row.at("limit").get<double>();
    for (const double peak : replay(registry().at("v-adaptive"), problem).peak_memory)
      CHECK(peak <= *problem.memory_limit);
  });
  CHECK(alike == 5);
}
