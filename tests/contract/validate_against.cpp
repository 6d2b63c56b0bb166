// `rehearse validate --against` through the command line: formats, files, exit statuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../program.hpp"

using nlohmann::json;

namespace {

const std::string kTable = "--against tests/fidelity/training_runs.csv --table megatron21_t1 jz_1b3_v100 ";

Output rehearse(const std::string& arguments) {
  return shell("cd '" PROJECT_ROOT "' && '" REHEARSE_BINARY "' " + arguments);
}
std::string read(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}
std::size_t lines(const std::string& text) { return std::size_t(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("text, JSON and CSV say the same") {
  const auto text = rehearse("validate " + kTable + "--rows");
  CHECK(text.status == 0);
  CHECK(contains(text.out, "megatron21_t1-004"));
  CHECK(contains(text.out, "mean of 2 tables of at least two rows"));

  const auto run = rehearse("validate " + kTable + "--format json");
  REQUIRE(run.status == 0);
  const auto answer = json::parse(run.out);
  REQUIRE(answer["tables"].size() == 2);
  const auto& table = answer["tables"][0];
  CHECK(table["table"] == "megatron21_t1");
  CHECK(table["rows"] == 10);
  double sum = 0;
  int rows = 0;
  for (const auto& row : answer["rows"])
    if (row["table"] == "megatron21_t1") {
      sum += std::abs(row["predicted_s"].get<double>() / row["measured_s"].get<double>() - 1);
      rows++;
    }
  REQUIRE(rows == 10);
  CHECK(table["mean"].get<double>() == doctest::Approx(sum / rows));

  const auto csv = rehearse("validate " + kTable + "--format csv");
  CHECK(csv.status == 0);
  CHECK(lines(csv.out) == 1 + answer["rows"].size());
}

TEST_CASE("a scenario that was written down predicts what the table says") {
  const Scratch scratch;
  const auto folder = scratch.folder.string();
  const auto run = rehearse(
      "validate --against tests/fidelity/training_runs.csv --table megatron21_t1 --format json "
      "--scenarios " +
      folder + "/rows");
  REQUIRE(run.status == 0);
  const auto row = json::parse(run.out)["rows"][3];
  const auto alone = rehearse("run " + folder + "/rows/" + row["id"].get<std::string>() + ".yaml --format json");
  REQUIRE(alone.status == 0);
  CHECK(json::parse(alone.out)["iteration_s"].get<double>() == doctest::Approx(row["predicted_s"].get<double>()));
}

TEST_CASE("a key that nothing knows is refused, and one that some rows have no place for is not") {
  const auto refused = rehearse("validate " + kTable + "--set training.precison=bf16 2>&1");
  CHECK(refused.status == 2);
  CHECK(
      contains(refused.out, "--set training.precison=bf16: error: unknown key 'precison' in 'training'; did you mean"));
  CHECK(rehearse("validate " + kTable + "--set nonsense.key=3").status == 2);
  CHECK(rehearse("validate " + kTable + "--set parallelism.tensor=5").status ==
        0);  // divides nothing: no row is judged
}

TEST_CASE("the page stands alone and shows every timed row") {
  const Scratch scratch;
  const auto page = scratch.folder / "published.html";
  CHECK(rehearse("validate " + kTable + "--html " + page.string()).status == 0);
  const auto html = read(page);
  CHECK(contains(html, "</html>"));
  for (const char* elsewhere : {"src=", "href=\"http", "@import"}) CHECK(!contains(html, elsewhere));
  CHECK(contains(html, "megatron@a100-80g-sxm/megatron-2021"));  // families, and what is furthest off
  CHECK(contains(html, "<title>compute: 9"));
  std::size_t points = 0;
  for (std::size_t at = 0; (at = html.find("<circle", at)) != std::string::npos; at++) points++;
  CHECK(points == 10 + 23);  // one per timed row
}

TEST_CASE("the error budget names the effects that a table depends on") {
  const auto run = rehearse(
      "validate --against tests/fidelity/training_runs.csv --table megatron21_t1 --budget "
      "--format json");
  REQUIRE(run.status == 0);
  const auto budget = json::parse(run.out);
  const double whole = budget["whole"]["tables"]["megatron21_t1"];
  const auto without = [&](const char* effect) {
    return budget["without"][effect]["tables"]["megatron21_t1"].get<double>();
  };
  for (const char* effect : {"attention", "memory-bound", "tensor-comm", "bubble", "clock"}) {
    CAPTURE(effect);
    CHECK(without(effect) > whole + .03);
  }
  CHECK(without("early-stop") == whole);  // nothing in 2021 stopped early
}

TEST_CASE("a folder is its tables, filters keep rows, and a forecast says nothing of what was measured") {
  const Scratch scratch;
  const auto file = scratch.folder / "forecast.csv";
  const auto run =
      rehearse("validate --against tests/fidelity --where table=^zerobubble --where 'pp=>8' --format json --forecast " +
               file.string());
  REQUIRE(run.status == 0);
  const auto answer = json::parse(run.out);
  REQUIRE(answer["rows"].size() == 12);
  for (const auto& row : answer["rows"]) {
    CHECK(row["family"] == "zerobubble@a100-80g-sxm/megatron-2022");
    CHECK(row["forecast_s"] != row["predicted_s"]);
  }
  CHECK(answer["tables"][0]["forecast"].get<double>() > 0);
  const auto forecast = read(file);
  CHECK(forecast.starts_with("id,table,family,forecast_s,predicted_peak_bytes,fits,not_judged\n"));
  CHECK(lines(forecast) == 13);
  CHECK(!contains(forecast, "error"));
  CHECK(contains(rehearse("validate " + kTable + "--where nothing=1 2>&1").out, "no table has a column 'nothing'"));
  CHECK(contains(rehearse("validate " + kTable + "--where gpu 2>&1").out, "COLUMN=PATTERN"));
  CHECK(rehearse("validate " + kTable + "--where gpu=abacus 2>&1").status == 2);
  CHECK(contains(rehearse("validate --against configs 2>&1").out, "no table of published runs there"));
}

TEST_CASE("tolerance and wrong input") {
  CHECK(rehearse("validate " + kTable + "--tolerance 50% --quiet").status == 0);
  CHECK(rehearse("validate " + kTable + "--tolerance 0.1% --quiet").status == 1);
  const auto unknown = rehearse("validate --against tests/fidelity/training_runs.csv --table megatron21_t11 2>&1");
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.out, "did you mean 'megatron21_t1'"));
  CHECK(rehearse("validate --against /nowhere.csv 2>&1").status == 2);
  CHECK(rehearse("validate x.yaml --against tests/fidelity/training_runs.csv 2>&1").status == 2);
  CHECK(rehearse("validate --against tests/fidelity/training_runs.csv --software all 2>&1").status == 2);
  CHECK(rehearse("validate --against README.md 2>&1").status == 2);
}
