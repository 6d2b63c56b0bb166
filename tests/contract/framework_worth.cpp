// A scenario without a framework is told what the choice is worth, in the numbers that it gets when it makes the
// choice.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../program.hpp"
#include "answer/predict.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;
using nlohmann::json;

namespace {

const std::string kModel =
    "version: 1\nmodel: llama3-70b\ncluster: {use: dgx-h100, nodes: 8}\n"
    "parallelism: {tensor: 8, sequence: true, pipeline: 4, zero: 1}\nbatch: {global: 64, micro: 1}\n";

json run(const std::string& text, const std::string& more = "") {
  const Scratch scratch;
  const auto file = (scratch.folder / "x.yaml").string();
  std::ofstream(file) << text;
  const auto result = shell("'" REHEARSE_BINARY "' run '" + file + "' --format json " + more);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("without a name: the times of the others, beside the answer in every form") {
  const auto assumed = run(kModel);
  CHECK(assumed["software"] == "megatron-2025");
  CHECK(assumed["software_named"] == false);
  REQUIRE(assumed["other_software"].size() >= 2);
  double least = assumed["iteration_s"], most = least;
  for (const auto& other : assumed["other_software"]) {
    const std::string name = other["software"];
    CAPTURE(name);
    CHECK(other["contention"] == true);
    CHECK(other["iteration_s"] == run(kModel, "--set framework=" + name)["iteration_s"]);
    least = std::min(least, other["iteration_s"].get<double>());
    most = std::max(most, other["iteration_s"].get<double>());
  }
  CHECK(most > 1.1 * least);  // the choice matters
  const Scratch scratch;
  const auto file = (scratch.folder / "x.yaml").string(), page = (scratch.folder / "x.html").string();
  std::ofstream(file) << kModel;
  const auto text = shell("'" REHEARSE_BINARY "' run '" + file + "' --html '" + page + "'");
  REQUIRE(text.status == 0);
  const auto headline = text.out.substr(0, text.out.find("Where the time goes"));
  CHECK(contains(headline, "Framework    none is named, megatron-2025 is assumed; with"));
  CHECK(contains(headline, "titan-2025"));
  std::stringstream html;
  html << std::ifstream(page).rdbuf();
  CHECK(contains(html.str(), "none is named, megatron-2025 is assumed"));
}

TEST_CASE("the whole answer equals what `run` shows") {
  const auto scenario = scenario::load_text(kModel, "x");
  const auto answer = answer::predict(scenario, answer::Options::whole());
  REQUIRE(answer.other_framework.size() == scenario.other_framework.size());
  CHECK(answer::predict(scenario).other_framework.empty());
  const auto slow = scenario::load_text(kModel + "faults: [{gpu: 3, slowdown: 1.5}]\n", "x");
  const auto faulted = answer::predict(slow, answer::Options::whole());
  REQUIRE(faulted.faulted);
  CHECK(faulted.faulted->without < faulted.summary.iteration);
}

TEST_CASE("with a name there is nothing to say") {
  const auto named = run(kModel + "framework: megatron-2024\n");
  CHECK(named["other_software"].empty());
  CHECK(named["software_named"] == true);
}
