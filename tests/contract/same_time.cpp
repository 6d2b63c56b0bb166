// One time for a training, whatever command says it. What `rehearse compare` shows: tests/cli/compare.cli.
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
