// `rehearse explain`: its numbers and changes are those of `run`, and shares sum to one. How it is asked:
// tests/cli/explain.cli.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "../rehearse.hpp"
#include "answer/predict.hpp"
#include "explore/advice.hpp"

namespace {

using namespace rehearsal;
using nlohmann::json;

json said_by(const std::string& arguments) {
  const auto run = rehearse(arguments + " --format json");
  REQUIRE_MESSAGE(run.status == 0, arguments << ": " << run.err);
  return json::parse(run.out);
}

struct Question {
  std::string file;
  std::vector<std::string> sets;

  std::string line() const {
    std::string text = "'" PROJECT_ROOT "/scenarios/" + file + "'";
    for (const auto& set : sets) text += " --set '" + set + "'";
    return text;
  }
  // The summary of `run` with more keys set.
  answer::Summary run(const std::vector<std::string>& more = {}) const {
    auto all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return answer::predict(scenario::load(PROJECT_ROOT "/scenarios/" + file, all), answer::Options::summary_alone())
        .summary;
  }
};
// Dense with tensor groups and replicas; ZeRO-3 over NICs; experts; states on the host; a searched pipeline.
const std::vector<Question>& questions() {
  static const std::vector<Question> all{
      {"llama3-8b-dgx-h100.yaml", {"batch.global=16"}},
      {"gpt-7.5b-zero-64xv100.yaml", {}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=16", "cluster={use: b200-sxm, nodes: 2}", "parallelism={expert: 16}",
        "model={use: qwen3-30b-a3b, layers: 2}", "framework={use: megatron-2026, dispatcher: hybridep}"}},
      {"gpt-10b-offload-1xv100.yaml", {}},
      {"llama3-8b-dgx-h100.yaml",
       {"batch.global=16", "parallelism={tensor: 2, pipeline: 4}", "schedule=zb-auto", "partition=balanced"}}};
  return all;
}

std::vector<std::string> pairs(const json& set) {
  std::vector<std::string> all;
  for (const auto& [key, value] : set.items()) all.push_back(key + "=" + value.get<std::string>());
  return all;
}

}  // namespace

// When every rate is divided, and every fixed time multiplied, by the same number, all times of the answer scale: so
// the shares of all keys with a unit of time sum to one.
TEST_CASE("a number turned is the iteration that run finds with it, and shares sum to one") {
  for (const auto& question : questions()) {
    CAPTURE(question.line());
    const auto said = said_by("explain " + question.line() + " --only sensitivity");
    REQUIRE(said["sensitivity"].size() > 10);
    double best = -1, shares = 0;
    for (const auto& row : said["sensitivity"]) {
      CAPTURE(row.dump());
      CHECK(row["iteration_change"].get<double>() >= best);  // most first
      best = row["iteration_change"];
      if (!row["share"].is_null()) shares += row["share"].get<double>();
      for (const auto& turn : {row, row["worse"]}) {
        if (turn["set"] == "") continue;  // it cannot be changed that far
        CHECK(to_seconds(question.run({turn["set"].get<std::string>()}).iteration) == turn["iteration_s"]);
        const double base = said["iteration_s"], moved = turn["iteration_s"];
        CHECK(turn["iteration_change"].get<double>() == doctest::Approx(moved / base - 1));
      }
    }
    const auto& sum = said["sensitivity_sum"];
    CHECK(shares == doctest::Approx(sum["shares"].get<double>()));
    CHECK(shares == doctest::Approx(1).epsilon(.02));
    CHECK(sum["all_at_once"].get<double>() == doctest::Approx(1).epsilon(.01));
  }
}

TEST_CASE("a change is what run finds with it") {
  for (const auto& question : questions()) {
    CAPTURE(question.line());
    const auto said = said_by("explain " + question.line() + " --only advice --all");
    const auto base = question.run();
    const auto& tried = said["advice_tried"];
    CHECK(tried["legal"].get<std::size_t>() == said["advice"].size() + tried["same"].get<std::size_t>());
    REQUIRE_FALSE(said["advice"].empty());
    std::size_t unfit = 0;
    double last = 0;
    for (const auto& row : said["advice"]) {
      CAPTURE(row.dump());
      const auto run = question.run(pairs(row["set"]));
      CHECK(to_seconds(run.iteration) == row["iteration_s"]);
      CHECK(run.fits == row["fits"].get<bool>());
      CHECK(run.gpus == base.gpus);
      CHECK(*run.peak.device - *base.peak.device == row["memory_change_bytes"].get<double>());
      CHECK_FALSE(run.digest == base.digest);
      // Layouts that fit come first, each group ordered from the shortest step.
      if (row["fits"] == false && unfit++ == 0) last = 0;
      CHECK((unfit == 0) == row["fits"].get<bool>());
      CHECK(row["iteration_s"].get<double>() >= last);
      last = row["iteration_s"];
    }
    CHECK(unfit == tried["unfit"].get<std::size_t>());
  }
}

TEST_CASE("an allocator that the framework lacks is not advised") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  std::size_t allocators = 0;
  for (const auto& change : explore::changes(scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml")))
    for (const auto& set : change) {
      CHECK(set != "training.allocator=exact");
      allocators += set.starts_with("training.allocator=");
    }
  CHECK(allocators == 1);  // expandable segments
}

TEST_CASE("the critical path is told whole, and limits are of this step") {
  for (const auto& question : questions()) {
    CAPTURE(question.line());
    const auto said = said_by("explain " + question.line() + " --only critical-path --only limits");
    const auto run = said_by("run " + question.line());
    for (const char* key : {"rehearsal", "scenario", "iteration_s", "fits"}) CHECK(said[key] == run[key]);
    CHECK_FALSE(said.contains("sensitivity"));
    double shares = 0, time = 0;
    for (const auto& piece : said["critical_path"]) {
      shares += piece["share"].get<double>(), time += piece["time_s"].get<double>();
      CHECK(run["breakdown_s"].contains(piece["category"].get<std::string>()));
      CHECK_FALSE(piece["text"].get<std::string>().empty());
    }
    CHECK(shares == doctest::Approx(1));
    CHECK(time == doctest::Approx(run["iteration_s"].get<double>()));
    // Executed FLOPs count a causal mask in full, arithmetic only the computed part.
    std::map<std::string, json> parts;
    for (const auto& part : said["limits"]["parts"]) {
      parts[part["name"]] = part;
      CHECK(part["time_s"].get<double>() ==
            doctest::Approx(part["amount"].get<double>() / part["rate_per_s"].get<double>()));
      CHECK(part["share"].get<double>() ==
            doctest::Approx(part["time_s"].get<double>() / run["iteration_s"].get<double>()));
      CHECK(part["share"].get<double>() < 1);
    }
    CHECK(said["limits"]["nearest"] == said["limits"]["parts"][0]["name"]);
    REQUIRE(parts.count("arithmetic"));
    REQUIRE(parts.count("GPU memory"));
    if (!run["traffic"]["links"].empty()) {
      const auto& busiest = run["traffic"]["links"][0];
      CHECK(std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
        return part.second["amount"] == busiest["bytes"] &&
               std::abs(part.second["share"].template get<double>() - busiest["busy_share"].template get<double>()) <
                   1e-9;
      }));
    }
  }
}
