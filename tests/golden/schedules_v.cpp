// Schedules of two chunks per rank in a V: orders, costs and peaks equal to those of the peers' own generators
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

TEST_CASE("v-adaptive against sail-sg's search") {
  reference::each_case("v_adaptive.jsonl", 6, [&](const json& row) {
    if (row.contains("error")) return;
    reference::compare(registry().at("v-adaptive"), reference::problem_of(row), row);
  });
}
