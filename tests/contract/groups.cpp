// rehearse groups as its users see it: the members of each group and their nodes, in text, JSON, CSV and as a picture.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../rehearse.hpp"

using nlohmann::json;

namespace {

const std::string kLlama = "scenarios/llama3-70b-64xh100.yaml";  // tensor 8, data 2, pipeline 4 on 8 nodes of 8

Run groups_of(const std::string& arguments) { return rehearse("groups " PROJECT_ROOT "/" + arguments); }

json answer(const std::string& arguments) {
  const auto run = groups_of(arguments + " --format json");
  REQUIRE_MESSAGE(run.status == 0, run.err);
  CHECK(run.err.empty());
  return json::parse(run.out);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("64 GPUs are all there, node by node") {
  const auto run = groups_of(kLlama);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "64 GPUs on 8 nodes of 8; from the innermost: tensor 8, context 1, data 2,\n  pipeline 4\n"));
  CHECK(contains(run.out, "tensor  8 groups of 8 GPUs, side by side, each on 1 node\n"));
  CHECK(contains(run.out, "data  32 groups of 2 GPUs, 8 apart, each on 2 nodes\n"));
  CHECK(contains(run.out, "  node 2   8  9 10 11 12 13 14 15\n"));
  CHECK(contains(run.out, "  group 0 = GPUs 0 16 32 48\n"));
  CHECK_FALSE(contains(run.out, "expert"));
  CHECK(count(run.out, "  node 7 ") == 3);
}

TEST_CASE("degrees of experts and of context are those of the scenario, unless asked otherwise") {
  const auto scenario = kLlama + " --set model=mixtral-8x7b --set parallelism.context=2 --set parallelism.data=1" +
                        " --set parallelism.expert=8";
  const auto sizes = [](const json& groups) { return groups["mesh"]; };
  const auto given = sizes(answer(scenario)), other = sizes(answer(scenario + " --expert 4 --expert-tensor 2"));
  CHECK(given["context"] == 2);
  CHECK(given["expert"] == 8);
  CHECK(given["expert_data"] == 2);
  CHECK(other["expert"] == 4);
  CHECK(other["expert_tensor"] == 2);
}

TEST_CASE("thousands of GPUs: the first nodes, and where the rest is") {
  const auto run = groups_of("scenarios/gpt3-175b-1024xa100.yaml");
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "and 126 nodes more"));
  CHECK(contains(run.out, "group 0 = GPUs 0 8 16 24 32 40 48 ... 120\n"));
  CHECK(contains(run.out, "--format json lists every group"));
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') < 40);
}

TEST_CASE("JSON holds every group of every axis, and they are those of the placement") {
  const auto usual = answer(kLlama);
  CHECK(usual["gpus"] == 64);
  CHECK(usual["mesh"]["order"] == json{"tensor", "context", "expert", "data", "pipeline"});
  CHECK(usual["mesh"]["expert_data"] == 16);
  CHECK(usual["groups"]["data"][0] == json{0, 8});
  CHECK(usual["groups"]["pipeline"][15] == json{15, 31, 47, 63});
  CHECK(usual["axes"]["data"]["apart"] == 8);
  for (const auto& [axis, groups] : usual["groups"].items()) {
    CAPTURE(axis);
    std::vector<int> gpus;
    for (const auto& group : groups)
      for (const auto& gpu : group) gpus.push_back(gpu);
    std::sort(gpus.begin(), gpus.end());
    REQUIRE(gpus.size() == 64);
    for (int g = 0; g < 64; g++) CHECK(gpus[std::size_t(g)] == g);
    CHECK(usual["axes"][axis]["groups"] == groups.size());
  }
  // Data innermost: tensor groups cross nodes.
  const auto moved = answer(kLlama + " --set 'placement=[data, tensor, context, expert, pipeline]'");
  CHECK(moved["groups"]["data"][0] == json{0, 1});
  CHECK(moved["groups"]["tensor"][0] == json{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(moved["axes"]["tensor"]["nodes_of_a_group"]["most"] == 2);
}

TEST_CASE("experts fold the GPUs of a stage: neighbours, or apart, as `placement` says") {
  const auto near = answer(kLlama + " --expert 4");
  CHECK(near["groups"]["expert"][0] == json{0, 1, 2, 3});
  CHECK(near["groups"]["expert_data"][0] == json{0, 4, 8, 12});
  const auto apart = answer(kLlama + " --expert 4 --set 'placement=[tensor, context, data, expert, pipeline]'");
  CHECK(apart["groups"]["expert"][0] == json{0, 4, 8, 12});
  CHECK(apart["groups"]["expert_data"][0] == json{0, 1, 2, 3});
  CHECK(contains(groups_of(kLlama + " --expert 4").out, "expert-tensor 1, expert 4, expert-data 4"));
}

TEST_CASE("CSV has a row per GPU") {
  const auto csv = groups_of(kLlama + " --format csv").out;
  CHECK(csv.starts_with("gpu,node,tensor_group,tensor_place,context_group,context_place,data_group,"));
  CHECK(contains(csv, "\n9,1,1,1,9,0,1,1,9,0,"));  // data group 1 = GPUs 1 and 9; pipeline group 9
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 65);
}

TEST_CASE("stages with layouts of their own have no one mesh") {
  const auto run = groups_of("scenarios/gpt-resharding-p3-8xlarge.yaml");
  CHECK(run.status == 2);
  CHECK(contains(run.err, "its 'stages' are cut each in its own way"));
}

TEST_CASE("a picture: a panel per axis, a box per node and GPU") {
  const Scratch scratch;
  const auto file = (scratch.folder / "groups.svg").string();
  const auto run = groups_of(kLlama + " --expert 8 --svg " + file);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  const auto drawn = read(file);
  CHECK(drawn.starts_with("<svg "));
  CHECK(drawn.ends_with("</svg>\n"));
  CHECK(count(drawn, "<title>GPU ") == 5 * 64);
  CHECK(count(drawn, ">node 7</text>") == 5);
  CHECK(count(drawn, ">expert-data</text>") == 1);
}

TEST_CASE("wrong questions: status 2, nothing on standard output") {
  const auto refused = [](const std::string& line, const std::string& hint) {
    CAPTURE(line);
    const auto run = groups_of(line);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK_MESSAGE(contains(run.err, hint), run.err);
  };
  refused("scenarios/teaching-1f1b-8-stages.yaml", "stand on no cluster");
  refused(kLlama + " --expert 3", "expert 3 x expert-tensor 1 does not divide tensor x context x data = 16 GPUs");
  for (const char* n : {"0", "-1", "two", "''"}) refused(kLlama + " --expert " + n, "--expert must be a whole number");
  refused(kLlama + " --set 'placement=[tensor, data]'", "'placement' does not name 'context'");
  refused("scenarios/megatron21-t1/gpt-1t-3072xa100.yaml --svg /tmp/x.svg", "--svg draws up to 1024 GPUs; found 3072");
  CHECK(rehearse("groups").status == 2);
}
