// The ten rows of Table 1 of "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473), 1.7 B
// to 1 T parameters on 32 to 3,072 A100 GPUs, each a scenario of its own: predicted against measured iteration time. No
// constant belongs to a row; where each comes from: models/README.md.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

struct Row {
  std::string scenario;
  double measured_s;
};

std::vector<Row> rows() {
  std::ifstream file(TEST_DATA "/fidelity/megatron21_table1.csv");
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    Row row;
    std::string seconds;
    std::getline(cells, row.scenario, ',');
    std::getline(cells, seconds, ',');
    row.measured_s = std::stod(seconds);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("Megatron-LM 2021, Table 1") {
  const auto table = rows();
  REQUIRE(table.size() == 10);
  std::vector<double> errors, rates;  // signed; executed FLOP/s per GPU, for the constant-rate baseline
  std::string text = fmt::format("\n{:<46} {:>11} {:>11} {:>8}\n", "scenario", "predicted", "measured", "error");
  for (const auto& row : table) {
    const auto scenario = scenario::load(PROJECT_ROOT "/" + row.scenario);
    const auto run = answer::predict(scenario);
    const double predicted = to_seconds(run.timeline.makespan());
    const double error = predicted / row.measured_s - 1;
    errors.push_back(error);
    rates.push_back(run.lowered->hardware_flops.value() / double(scenario.parallelism.gpus()) / row.measured_s);
    text +=
        fmt::format("{:<46} {:>9.3f} s {:>9.3f} s {:>+7.1f} %\n", row.scenario, predicted, row.measured_s, error * 100);
  }
  double mean = 0, bias = 0, log_rate = 0, constant = 0;
  for (const double e : errors) mean += std::abs(e) / 10, bias += e / 10;
  // The baseline: one rate for all rows, the best (geometric mean), fitted on these very rows.
  for (const double r : rates) log_rate += std::log(r) / 10;
  for (const double r : rates) constant += std::abs(r / std::exp(log_rate) - 1) / 10;
  std::vector<double> sorted;
  for (const double e : errors) sorted.push_back(std::abs(e));
  std::sort(sorted.begin(), sorted.end());
  text +=
      fmt::format("mean {:.1f} %, median {:.1f} %, worst {:.1f} %, bias {:+.1f} %; one constant rate: mean {:.1f} %\n",
                  mean * 100, (sorted[4] + sorted[5]) * 50, sorted[9] * 100, bias * 100, constant * 100);
  MESSAGE(text);
  CHECK(mean <= .03);
  CHECK(mean < constant / 2);
}
