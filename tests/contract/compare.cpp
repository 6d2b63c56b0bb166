// `rehearse compare` through the command line.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "../program.hpp"
#include "predicted.hpp"
#include "random_training.hpp"
#include "scenario/plan_file.hpp"

namespace {

using nlohmann::json;

Output rehearse(const std::string& arguments) {
  return shell("cd '" PROJECT_ROOT "' && '" REHEARSE_BINARY "' " + arguments);
}

const std::string kTeaching = "compare scenarios/teaching-1f1b-8-stages.yaml ";

}  // namespace

TEST_CASE("rows hold what varies and what run says") {
  const auto run =
      rehearse(kTeaching + "--vary schedule=gpipe,1f1b,zb-h1 --vary batch.microbatches=8,24 --format json");
  REQUIRE(run.status == 0);
  const auto j = json::parse(run.out);
  CHECK(j["vary"] == json{{"schedule", {"gpipe", "1f1b", "zb-h1"}}, {"batch.microbatches", {8, 24}}});
  REQUIRE(j["rows"].size() == 6);
  CHECK(j["rows"][3]["set"] == json{{"schedule", "1f1b"}, {"batch.microbatches", 24}});
  const auto alone =
      json::parse(rehearse("run scenarios/teaching-1f1b-8-stages.yaml --set schedule=1f1b --format json").out);
  for (const char* key : {"iteration_s", "bubble_rate", "ranks", "critical_path", "breakdown_s", "warnings"}) {
    CAPTURE(key);
    CHECK(j["rows"][3][key] == alone[key]);
  }
  // 1F1B holds p - r <= 8 forwards, GPipe all 24; every rank has one stage.
  CHECK(j["rows"][3]["in_flight"] == 8);
  CHECK(j["rows"][1]["in_flight"] == 24);
  CHECK(j["rows"][1]["stages_held"] == 1);
  // ZB-H1 with 24 micro-batches is fastest per micro-batch and holds no more than the others.
  int best = 0;
  for (std::size_t i = 0; i < 6; i++) best += j["rows"][i]["best"].get<bool>();
  CHECK(best == 1);
  CHECK(j["rows"][5]["best"] == true);
  CHECK(j["rows"][5]["relative"] == 1.0);
  CHECK(j["rows"][5]["pareto"] == true);
  CHECK(j["rows"][1]["pareto"] == false);
}

TEST_CASE("the answer is the same for every number of jobs") {
  const std::string line = kTeaching + "--vary schedule=gpipe,1f1b,zb-h1,nonsense --vary batch.microbatches=8,16,24";
  for (const char* format : {"text", "json", "csv"}) {
    const auto one = rehearse(line + " --jobs 1 --format " + format);
    CHECK(one.status == 0);
    CHECK_FALSE(one.out.empty());
    CHECK(rehearse(line + " --jobs 4 --format " + format).out == one.out);
  }
}

TEST_CASE("a wrong variant is a row with its error; nothing but wrong ones is exit 2") {
  const auto some = rehearse(kTeaching + "--vary schedule=1f1b,1f2b --format json");
  CHECK(some.status == 0);
  const auto rows = json::parse(some.out)["rows"];
  CHECK(contains(rows[1]["error"], "did you mean '1f1b'?"));
  CHECK_FALSE(rows[1].contains("iteration_s"));
  CHECK_FALSE(rows[0].contains("error"));
  const auto none = rehearse(kTeaching + "--vary schedule=1f2b,1f3b --format json 2>/dev/null");
  CHECK(none.status == 2);
  CHECK(json::parse(none.out)["rows"].size() == 2);
  for (const char* wrong : {"--vary schedul=gpipe,1f1b", "--vary schedule", "--vary schedule=a --vary schedule=b",
                            "--jobs 0 --vary schedule=1f1b", "--jobs x"}) {
    CAPTURE(wrong);
    const auto run = rehearse(kTeaching + wrong + " 2>&1 >/dev/null");
    CHECK(run.status == 2);
    CHECK(contains(run.out, "error: "));
  }
  CHECK(rehearse("compare no-such-file.yaml 2>/dev/null").status == 2);
  CHECK(rehearse("compare 2>/dev/null").status == 2);
}

TEST_CASE("several scenarios, text and CSV") {
  const std::string files = "compare scenarios/teaching-1f1b-8-stages.yaml scenarios/teaching-zb-h1-8-stages.yaml ";
  const auto text = rehearse(files).out;
  CHECK(contains(text, "scenarios/teaching-zb-h1-8-stages.yaml"));
  CHECK(contains(text, "best"));
  const auto csv = rehearse(files + "--format csv").out;
  CHECK(csv.starts_with("file,iteration_s,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  const auto j = json::parse(rehearse(files + "--format json").out);
  CHECK(j["vary"] == json::object());
  CHECK(j["rows"][1]["scenario"]["file"] == "scenarios/teaching-zb-h1-8-stages.yaml");
}

TEST_CASE("exposed communication is what run shows of it, in text and CSV") {
  const std::string line =
      "compare scenarios/llama3-8b-dgx-h100.yaml --set 'model={use: qwen3-30b-a3b, layers: 4}' --set batch.global=32 "
      "--set framework=megatron-2025 --vary 'parallelism={expert: 8},{expert: 2, pipeline: 4}' ";
  const auto rows = json::parse(rehearse(line + "--format json").out)["rows"];
  REQUIRE(rows.size() == 2);
  const auto csv = rehearse(line + "--format csv").out, text = rehearse(line).out;
  for (const auto& row : rows) {
    const auto& parts = row["breakdown_s"];
    CHECK(parts["expert_comm"].get<double>() > 0);
    double exposed = 0;
    for (const auto& [name, part] : parts.items())
      if (name.ends_with("_comm")) exposed += part.get<double>();
    // The row of this variant, by its time.
    const auto from = csv.find(fmt::format(",{},", row["iteration_s"].get<double>()));
    REQUIRE(from != std::string::npos);
    std::istringstream cells(csv.substr(from + 1));
    std::string cell;
    for (int i = 0; i < 6; ++i) std::getline(cells, cell, ',');
    CHECK(std::stod(cell) == doctest::Approx(exposed).epsilon(1e-9));
  }
  CHECK(rows[1]["breakdown_s"]["pipeline_comm"].get<double>() > 0);
  CHECK(contains(text, "exposed"));
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) CHECK(one.size() <= 120);
  // Times that are given without transfers expose none, and have no such column.
  const auto none =
      rehearse(kTeaching + "--set 'costs={forward: 10ms, backward: 10ms, weight: 10ms, transfer: 0}'").out;
  CHECK_FALSE(contains(none, "exposed"));
}

TEST_CASE("steps that overflow and train nothing make a variant worse") {
  const std::string line =
      "compare scenarios/llama3-8b-dgx-h100.yaml --set training.precision=fp16 --vary "
      "training.loss_scaling.overflow_rate=0,0.1,0.3 --format json";
  const auto rows = json::parse(rehearse(line).out)["rows"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["best"] == true);
  for (std::size_t i = 1; i < 3; ++i) {
    CHECK(rows[i]["iteration_s"] == rows[0]["iteration_s"]);
    CHECK(rows[i]["relative"].get<double>() ==
          doctest::Approx(rows[0]["samples_per_s"].get<double>() / rows[i]["samples_per_s"].get<double>()));
    CHECK(rows[i]["relative"] > rows[i - 1]["relative"]);
    CHECK(rows[i]["pareto"] == false);
  }
}

TEST_CASE("rows are sorted by what heads their column, and a wrong name is told before anything is predicted") {
  const std::string line = kTeaching + "--vary schedule=gpipe,zb-h1,1f1b ";
  for (const char* name : {"iteration", "'peak memory'", "'in flight'", "relative"}) {
    CAPTURE(name);
    CHECK(rehearse(line + "--sort " + name).status == 0);
  }
  CHECK(rehearse(line + "--format csv --sort iteration").out == rehearse(line + "--format csv --sort iteration_s").out);
  // The scenario does not exist, and the column is what is told.
  const auto wrong = rehearse("compare no-such-file.yaml --sort iteratoin 2>&1 >/dev/null");
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.out, "--sort: there is no column 'iteratoin'"));
  CHECK(contains(wrong.out, "did you mean 'iteration"));
  CHECK_FALSE(contains(wrong.out, "no-such-file"));
}

namespace {

// Of the second line of a CSV, the cell below this name; cells before it hold no commas.
std::string cell_below(const std::string& csv, const std::string& name) {
  std::istringstream lines(csv);
  std::string head, row, word, value;
  std::getline(lines, head), std::getline(lines, row);
  std::istringstream names(head), values(row);
  while (std::getline(names, word, ',') && std::getline(values, value, ','))
    if (word == name) return value;
  return "no column " + name;
}

// The layout of a scenario as the only one of a space; empty where `plan` has no such layout.
std::string only_layout(const rehearsal::scenario::Scenario& s) {
  const auto& p = s.parallelism;
  const auto& c = *s.concrete;
  if (c.training.recompute_every != 1 || c.training.offload.any() || p.chunks < s.schedule.schedule().min_chunks)
    return "";
  return fmt::format(
      " --set 'plan={{tensor: {}, context: {}, pipeline: {}, data: {}, expert: {}, chunks: {}, micro: {}, zero: {}, "
      "sequence: {}, recompute: {}, schedules: {}}}'",
      p.tensor, p.context, p.pipeline, p.data, p.expert, p.chunks, s.batch.micro, p.zero, p.sequence,
      rehearsal::scenario::name(c.training.recompute), s.schedule.name);
}

}  // namespace

TEST_CASE("run, compare, sweep, explain and plan say the same time, in JSON and CSV") {
  rehearsal::contract::settle();
  const Scratch scratch;
  const char* asked = std::getenv("REHEARSAL_LAW_CASES");
  const int cases = asked ? std::max(10, std::atoi(asked)) : 10;
  int planned = 0;
  for (int seed = 1, found = 0; found < cases; ++seed) {
    const rehearsal::contract::RandomTraining training(std::uint64_t(seed) + 900);
    const auto file = (scratch.folder / fmt::format("{}.yaml", seed)).string();
    std::ofstream(file) << training.text();
    CAPTURE(training.text());
    const auto run = rehearse("run " + file + " --format json 2>/dev/null");
    if (run.status == 2) continue;  // a rule that the draw does not know
    ++found;
    const auto time = json::parse(run.out)["iteration_s"];
    CHECK(cell_below(rehearse("run " + file + " --format csv").out, "iteration_s") == time.dump());
    CHECK(json::parse(rehearse("compare " + file + " --format json").out)["rows"][0]["iteration_s"] == time);
    CHECK(cell_below(rehearse("compare " + file + " --format csv").out, "iteration_s") == time.dump());
    const auto store = (scratch.folder / fmt::format("{}.sqlite", seed)).string();
    CHECK(json::parse(rehearse("sweep --quiet " + file + " --store " + store + " --format json")
                          .out)["rows"][0]["iteration_s"] == time);
    CHECK(cell_below(rehearse("compare " + store + " --format csv").out, "iteration_s") == time.dump());
    if (found % 4 == 1)
      CHECK(json::parse(rehearse("explain --quiet " + file + " --format json").out)["iteration_s"] == time);
    const auto plan = only_layout(rehearsal::scenario::load(file));
    if (plan.empty()) continue;
    const auto best = rehearse("plan --quiet " + file + plan + " --format json 2>/dev/null");
    if (best.status != 0) continue;  // more than one GPU of a kind, or it does not fit
    ++planned;
    CHECK(json::parse(best.out)["best"]["iteration_s"] == time);
    CHECK(cell_below(rehearse("plan --quiet " + file + plan + " --format csv").out, "iteration_s") == time.dump());
  }
  CHECK(planned >= cases / 5);
}

// deepseek-ai/DualPipe, README.md, "Pipeline Bubbles and Memory Usage Comparison", PP = 8 stages, B = full backward:
//   1F1B       (PP-1)(F+B)           1x parameters   PP activations
//   ZB1P       (PP-1)(F+B-2W)        1x              PP
//   DualPipe   (PP/2-1)(F&B+B-3W)    2x              PP+1
//   DualPipeV  (PP/2-1)(F&B+B-3W)    2x              PP+1            on PP/2 ranks
// F = I = W = 10 ms and free transfers, so B = 20 and F&B = 30: bubbles of 210, 70, 60 and 60 ms. ZB1P: zb-h1.
TEST_CASE("the comparison table of DualPipe out of one command") {
  const auto run = rehearse(kTeaching +
                            "--set 'costs={forward: 10ms, backward: 10ms, weight: 10ms, transfer: 0}' --vary "
                            "schedule=1f1b,zb-h1,dualpipe,dualpipev --vary 'parallelism={pipeline: 8},{pipeline: 4, "
                            "chunks: 2}' --format json");
  REQUIRE(run.status == 0);
  struct Row {
    const char *schedule, *parallelism;
    double bubble_s;
    int parameters, activations;
  };
  std::size_t found = 0;
  const auto j = json::parse(run.out);
  for (const auto& [schedule, parallelism, bubble_s, parameters, activations] :
       {Row{"1f1b", "{pipeline: 8}", 0.21, 1, 8}, Row{"zb-h1", "{pipeline: 8}", 0.07, 1, 8},
        Row{"dualpipe", "{pipeline: 8}", 0.06, 2, 9}, Row{"dualpipev", "{pipeline: 4, chunks: 2}", 0.06, 2, 9}})
    for (const auto& row : j["rows"]) {
      if (row["set"]["schedule"] != schedule || row["set"]["parallelism"] != parallelism) continue;
      CAPTURE(row.dump());
      found++;
      REQUIRE_FALSE(row.contains("error"));
      const double iteration = row["iteration_s"];
      CHECK(row["bubble_rate"].get<double>() * iteration == doctest::Approx(bubble_s));
      CHECK(row["stages_held"] == parameters);
      CHECK(row["in_flight"] == activations);
    }
  CHECK(found == 4);
}
