// `rehearse balance` at the level of the program: what the JSON says of itself, traces, moves, wrong input.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "../program.hpp"

using nlohmann::json;

namespace {

const std::string kExample = "scenarios/balance/eplb-readme.yaml ";

Output rehearse(const std::string& arguments) {
  return shell("cd '" PROJECT_ROOT "' && '" REHEARSE_BINARY "' balance " + arguments);
}
json answer(const std::string& arguments) {
  const auto run = rehearse(arguments + " --format json");
  REQUIRE(run.status == 0);
  return json::parse(run.out);
}

// Loads, counts and slots again, from phy2log and the weights alone: contiguous slots per GPU, copies share evenly.
void check_answer(const json& a, const std::vector<std::vector<double>>& weights, std::size_t gpus) {
  for (std::size_t l = 0; l < weights.size(); l++) {
    const auto slots = a["phy2log"][l].get<std::vector<std::size_t>>();
    std::vector<int> copies(weights[l].size(), 0);
    for (const auto expert : slots) copies.at(expert)++;
    std::vector<double> loads(gpus, 0);
    for (std::size_t s = 0; s < slots.size(); s++)
      loads[s * gpus / slots.size()] += weights[l][slots[s]] / copies[slots[s]];
    const double mean = std::accumulate(loads.begin(), loads.end(), 0.) / double(gpus);
    CHECK(a["logcnt"][l].get<std::vector<int>>() == copies);
    for (std::size_t g = 0; g < gpus; g++) CHECK(a["gpu_load"][l][g].get<double>() == doctest::Approx(loads[g]));
    const double ratio = *std::max_element(loads.begin(), loads.end()) / mean;
    CHECK(a["max_over_mean"][l].get<double>() == doctest::Approx(ratio));
    CHECK(a["lower_bound"][l].get<double>() <= ratio * (1 + 1e-9));
  }
}

const std::vector<std::vector<double>> kWeights{{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86},
                                                {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}};

}  // namespace

TEST_CASE("both methods say what holds; ours is never worse") {
  const auto best = answer(kExample), eplb = answer(kExample + "--set method=eplb");
  check_answer(best, kWeights, 8);
  check_answer(eplb, kWeights, 8);
  // The README's own placement.
  CHECK(eplb["phy2log"][0] == json::parse("[5,6,5,7,8,4,3,4,10,9,10,2,0,1,11,1]"));
  for (std::size_t l = 0; l < 2; l++)
    CHECK(best["max_over_mean"][l].get<double>() <= eplb["max_over_mean"][l].get<double>());
  CHECK(best["policy"] == "hierarchical");
  CHECK(answer(kExample + "--set nodes=3 --set gpus=6 --set replicas=18")["policy"] == "global");  // 3 do not divide 4
}

TEST_CASE("where the same placement is in use nothing moves, and what moves is counted in bytes") {
  const auto fresh = answer(kExample);
  const auto again =
      answer(kExample + "--set 'previous={phy2log: " + fresh["phy2log"].dump() + ", bytes_per_expert: 10MB}'");
  CHECK(again["moved_replicas"] == 0);
  CHECK(again["max_over_mean"] == fresh["max_over_mean"]);
  const std::string in_order = "[0,1,2,3,4,5,6,7,8,9,10,11,0,1,2,3]";
  const auto moved =
      answer(kExample + "--set 'previous={phy2log: [" + in_order + "," + in_order + "], bytes_per_expert: 10MB}'");
  CHECK(moved["moved_replicas"].get<int>() > 0);
  CHECK(moved["moved_bytes"].get<double>() == moved["moved_replicas"].get<double>() * 1e7);
  CHECK(moved["max_over_mean"] == fresh["max_over_mean"]);  // moving costs nothing by default
  // Where it costs more than any gain, everything stays: of a placement that the policy allows.
  const auto eplb = answer(kExample + "--set method=eplb");
  const auto dear = answer(kExample + "--set move_cost=1e6 --set 'previous={phy2log: " + eplb["phy2log"].dump() + "}'");
  CHECK(dear["moved_replicas"] == 0);
  CHECK(dear["phy2log"] == eplb["phy2log"]);
}

TEST_CASE("a trace: made anew from what was seen, beside the first placement kept") {
  const Scratch scratch;
  const auto file = (scratch.folder / "trace.yaml").string();
  std::ofstream(file) << "trace: [" << json({kWeights[0]}).dump() << ", " << json({kWeights[1]}).dump() << ", "
                      << json({kWeights[1]}).dump() << "]\nevery: 2\nreplicas: 16\ngroups: 4\nnodes: 2\ngpus: 8\n";
  const auto a = answer(file);
  REQUIRE(a["steps"].size() == 3);
  CHECK(a["steps"][1]["max_over_mean"] == a["steps"][1]["static_max_over_mean"]);  // nothing new was made yet
  CHECK(a["steps"][2]["rebalanced"] == true);
  CHECK(a["steps"][2]["max_over_mean"][0].get<double>() < a["steps"][2]["static_max_over_mean"][0].get<double>());
}

TEST_CASE("the picture has a box per copy of an expert; of many GPUs a cell per GPU, before and after") {
  const Scratch scratch;
  const auto file = (scratch.folder / "loads.svg").string();
  const auto drawn = [&](const std::string& set, std::string_view what) {
    REQUIRE(rehearse(kExample + set + "--svg " + file).status == 0);
    std::ifstream in(file);
    const std::string svg{std::istreambuf_iterator<char>(in), {}};
    CHECK(contains(svg, "</svg>"));
    std::size_t found = 0;
    for (std::size_t at = 0; (at = svg.find(what, at)) != std::string::npos; at++) found++;
    return found;
  };
  CHECK(drawn("", "<title>expert ") == 2 * 16);  // layers x copies
  CHECK(drawn("--set gpus=64 --set replicas=64 ", "class=\"load\"") == 2 * 2 * 64);
}

TEST_CASE("wrong questions: exit 2 with the rule") {
  for (const char* set : {"replicas=8", "gpus=7", "weights=[[1,-2,3]]", "weights=[[1,.nan]]", "weights=[]",
                          "weights=[[1,2],[1]]", "methd=best", "method=bets", "policy=both", "gpus=0", "every=2",
                          "previous={phy2log: [[0]]}", "time_limit=0s", "move_cost=-1"}) {
    CAPTURE(set);
    const auto run = rehearse(kExample + "--set '" + set + "' 2>&1");
    CHECK(run.status == 2);
    CHECK(contains(run.out, "error: "));
  }
}
