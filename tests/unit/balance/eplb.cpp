// Placements of experts against those of DeepSeek's EPLB, slot by slot, and our own search against them and against
// known bounds. Data: eplb/cases.jsonl.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "balance/answer.hpp"
#include "balance/eplb.hpp"
#include "balance/registry.hpp"

using namespace rehearsal;
using nlohmann::json;

namespace {

std::vector<json> cases() {
  std::ifstream file(TEST_DATA "/golden/eplb/cases.jsonl");
  std::vector<json> all;
  for (std::string line; std::getline(file, line);) all.push_back(json::parse(line));
  return all;
}

balance::Problem problem_of(const json& c) {
  balance::Problem p;
  p.weights = c["weight"].get<std::vector<balance::Loads>>();
  p.replicas = c["num_replicas"], p.groups = c["num_groups"], p.nodes = c["num_nodes"], p.gpus = c["num_gpus"];
  return p;
}

// Slots, counts and copies are consistent, and loads follow from the experts.
void check_consistent(const balance::Problem& problem, const balance::Placement& placement) {
  const auto shape = balance::shape_of(problem);
  REQUIRE(placement.layers == problem.layers());
  for (std::uint32_t l = 0; l < placement.layers; l++) {
    std::vector<std::int32_t> counts(placement.experts, 0);
    for (const auto expert : placement.slots(l)) {
      REQUIRE(expert >= 0);
      REQUIRE(expert < std::int32_t(placement.experts));
      counts[std::size_t(expert)]++;
    }
    for (std::uint32_t e = 0; e < placement.experts; e++) {
      CHECK(counts[e] == placement.counts(l)[e]);
      REQUIRE(counts[e] >= 1);
      for (std::int32_t k = 0; k < counts[e]; k++) {
        const auto slot = placement.copies(l, e)[std::size_t(k)];
        REQUIRE(slot >= 0);
        CHECK(placement.slots(l)[std::size_t(slot)] == std::int32_t(e));
      }
    }
    const auto loads = balance::gpu_loads(shape, problem.weights[l], placement.slots(l));
    const double all = std::accumulate(problem.weights[l].begin(), problem.weights[l].end(), 0.);
    CHECK(std::accumulate(loads.begin(), loads.end(), 0.) == doctest::Approx(all).epsilon(1e-12));
  }
}

std::vector<double> worst(const balance::Problem& problem, const balance::Placement& placement) {
  std::vector<double> ratios;
  for (std::uint32_t l = 0; l < placement.layers; l++)
    ratios.push_back(
        balance::max_over_mean(balance::gpu_loads(balance::shape_of(problem), problem.weights[l], placement.slots(l))));
  return ratios;
}

}  // namespace

TEST_CASE("placements of EPLB, slot by slot") {
  int checked = 0;
  for (const auto& c : cases()) {
    CAPTURE(c["id"].get<std::string>());
    const auto problem = problem_of(c);
    CHECK(balance::shape_of(problem).hierarchical == (c["policy"] == "hierarchical"));
    const auto placement = balance::eplb(problem);
    check_consistent(problem, placement);
    for (std::uint32_t l = 0; l < placement.layers; l++) {
      const auto slots = placement.slots(l);
      CHECK(std::vector<std::int32_t>(slots.begin(), slots.end()) == c["phy2log"][l].get<std::vector<std::int32_t>>());
      const auto counts = placement.counts(l);
      CHECK(std::vector<std::int32_t>(counts.begin(), counts.end()) == c["logcnt"][l].get<std::vector<std::int32_t>>());
      for (std::uint32_t e = 0; e < placement.experts; e++) {
        const auto copies = placement.copies(l, e);
        CHECK(std::vector<std::int32_t>(copies.begin(), copies.end()) ==
              c["log2phy"][l][e].get<std::vector<std::int32_t>>());
      }
      checked++;
    }
  }
  CHECK(checked > 30);
}

TEST_CASE("our own search: never worse than EPLB, never below the bound, as good as what is known") {
  const auto& best = balance::registry().at("best");
  double ratios = 0;
  int layers = 0;
  std::string text = "\n";
  for (const auto& c : cases()) {
    CAPTURE(c["id"].get<std::string>());
    const auto problem = problem_of(c);
    const auto plan = best.plan(problem, balance::effort_within(seconds(.2)));
    check_consistent(problem, plan.placement);
    const auto ours = worst(problem, plan.placement);
    double sum = 0;
    for (std::size_t l = 0; l < ours.size(); l++) {
      CAPTURE(l);
      const double eplb = c["max_over_mean"][l], bound = c["lower_bound_max_over_mean"][l],
                   known = c["best_known_max_over_mean"][l];
      CHECK(ours[l] <= eplb * (1 + 1e-6));
      CHECK(ours[l] >= bound * (1 - 1e-6));
      sum += ours[l] / known;
    }
    text += fmt::format("{:<8} {:>3} layers  best / best known {:.5f}\n", c["id"].get<std::string>(), ours.size(),
                        sum / double(ours.size()));
    ratios += sum, layers += int(ours.size());
  }
  text += fmt::format("mean of {} layers {:.5f}\n", layers, ratios / layers);
  MESSAGE(text);
  CHECK(ratios / layers <= 1.005);
}
