// Memory: the closed forms of the ZeRO paper, and the peaks of published runs by the counter that printed them.
//
// memory.csv: ZeRO (arXiv 1910.02054) Tables 1 and 2, and the largest models that bigscience found to fit by trial.
// training_runs.csv: peaks of torchtitan (Llama 3, reserved), Zero Bubble Table 4 (reserved; its "GB" are GiB), and
// bigscience's tr3m-1B3 (nvidia-smi of the first pipeline stage), with rows that ran out of memory.
//
// Used in a fit: the 2 B per parameter of DeepSpeed's flat buffer, on jz_1b3_v100 and bloom_sweep_feb; with the former
// alone its error was .063 and the latter's .165. Nothing else: tensors follow from the operators, segments from the
// allocator's rules; context and communicators are assumed.
//
// Known misses. jz TP 2: -11 and -25 %; its two rows differ by activations that are not divided by 2. jz with large
// micro-batches on pipelines: +11 to +13 %, the first stage only. It is assumed that a torch loop keeps its logits
// until the end of the backward; without that titan_t1 and titan_t3 are 3 points lower.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>

#include "answer/predict.hpp"
#include "models/transformer.hpp"
#include "plan/plan.hpp"
#include "published/against.hpp"

using namespace rehearsal;

namespace {

// One row of memory.csv: id, table, config, quantity, value.
struct Row {
  std::string id, table, config, quantity, printed;
  double value() const { return std::stod(printed); }
};
std::vector<Row> rows(const std::string& table) {
  std::ifstream file(TEST_DATA "/fidelity/memory.csv");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line)
      if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        cells.emplace_back();
      else
        cells.back() += c;
    if (cells.size() > 4 && cells[1] == table) rows.push_back({cells[0], cells[1], cells[2], cells[3], cells[4]});
  }
  return rows;
}
double number_after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + mark.size()));
}

// Bytes of state per parameter and GPU in the graph, fp16 with Adam.
double state_bytes(int zero, std::int64_t data) {
  plan::Plan plan;
  plan.job.training.precision = plan.job.training.gradient_precision = Precision::fp16;
  plan.job.parallelism.data = data, plan.job.parallelism.zero = zero;
  const auto states = plan.resident_bytes(data);
  return states.parameters + states.gradients + states.optimizer;
}

double predicted_device(const scenario::Scenario& scenario) { return *answer::predict(scenario).summary.peak.device; }

}  // namespace

TEST_CASE("ZeRO Table 1: model states per device") {
  const auto table = rows("zero_t1");
  REQUIRE(table.size() == 54);
  for (const auto& row : table) {
    CAPTURE(row.id);
    const double size = std::stod(row.config) * (row.config.find("T params") != std::string::npos ? 1000 : 1);
    const auto data = std::int64_t(number_after(row.config, "DP="));
    const int stage = int(number_after(row.quantity, "ZeRO stage "));
    const auto point = row.printed.find('.');
    const double digit = point == std::string::npos ? 1 : std::pow(10., -double(row.printed.size() - point - 1));
    // The paper rounds some entries and cuts others off: within one unit of the last digit.
    CHECK(std::abs(size * state_bytes(stage, data) - row.value()) < digit);
  }
}

TEST_CASE("ZeRO Table 2: the largest model that 32 GB could hold") {
  int judged = 0;
  for (const auto& row : rows("zero_t2")) {
    if (row.quantity.find("theoretical") == std::string::npos) continue;
    CAPTURE(row.id);
    const double slices = number_after(row.config, "MP=");
    const bool baseline = row.quantity.find("baseline") != std::string::npos;
    const int stage = baseline ? 0 : int(number_after(row.quantity, "ZeRO-"));
    // 64 replicas in all rows. Printed with two digits, from 500 on with one: 512, 1024 and 2048 are 2.4 % more.
    CHECK(32 * slices / state_bytes(stage, 64) == doctest::Approx(row.value()).epsilon(.025));
    judged++;
  }
  CHECK(judged == 20);
}

// Only the sizes of these models are printed. Assumed: 128 columns per layer, evenly divided layers, h in steps of 512.
// Measured by trial: the next size tried did not fit.
TEST_CASE("the largest model that fits, bigscience") {
  std::string text = "\n";
  double sum = 0;
  const auto table = rows("jz_max_model");
  REQUIRE(table.size() == 9);
  for (const auto& row : table) {
    const bool small = row.config.find("16GB") != std::string::npos;
    const auto gpus = std::int64_t(number_after(row.config, " x")), pipeline = gpus / 4;
    double largest = 0;
    for (std::int64_t hidden = 2048;; hidden += 512) {
      const auto layers = std::max<std::int64_t>(1, (hidden / 128 + pipeline / 2) / pipeline) * pipeline;
      const auto scenario = scenario::load_text(
          fmt::format("version: 1\nname: largest\n"
                      "model: {{family: gpt, layers: {}, hidden: {}, heads: {}, vocabulary: 50257, sequence: 1024}}\n"
                      "cluster: {{use: v100-32g-opa, nodes: {}{}}}\nparallelism: {{tensor: 4, pipeline: {}}}\n"
                      "batch: {{global: {}, micro: 1}}\n"
                      "training: {{precision: fp16, recompute: full, attention: unfused}}\nframework: deepspeed-2021\n",
                      layers, hidden, hidden / 128, gpus / 4, small ? ", gpu: v100-16g-sxm2" : "", pipeline,
                      2 * pipeline),
          "largest model");
      if (predicted_device(scenario) > double(scenario.concrete->cluster.gpu.memory.count())) break;
      largest = models::parameters(scenario.concrete->model) / 1e9;
    }
    sum += largest / row.value() - 1;
    text += fmt::format("{:<18} {:>4} GPUs of {} GB: predicted {:>6.1f} B, found {:>6.1f} B {:>+6.1f} %\n", row.id,
                        gpus, small ? 16 : 32, largest, row.value(), (largest / row.value() - 1) * 100);
  }
  const double bias = sum / double(table.size());
  MESSAGE(text << fmt::format("bias {:+.1f} %", bias * 100));
  CHECK(std::abs(bias) < .25);  // trials were as coarse as that
}

TEST_CASE("peaks of published runs") {
  // Limits of a table's mean error: the errors reached plus a margin.
  const std::map<std::string, double> limits{{"jz_1b3_v100", .065}, {"bloom_sweep_feb", .097}, {"zerobubble_t4", .03},
                                             {"titan_t1", .015},    {"titan_t2", .05},         {"titan_t3", .01},
                                             {"titan_t4", .046}};
  std::vector<published::Run> runs;
  for (const char* file : {"/fidelity/training_runs.csv", "/fidelity/recipes.csv"})
    for (const auto& run : published::read_runs(std::string(TEST_DATA) + file))
      if (limits.count(run.table)) runs.push_back(run);
  const auto all = published::predict(runs, {});
  std::string text = "\n";
  for (const auto& p : all) {
    if (!p.not_judged.empty()) continue;
    if (p.run.out_of_memory())
      text += fmt::format("{:<20} ran out of memory, predicted {}\n", p.run.id, p.fits ? "to fit" : "as much");
    else if (p.measured_peak > 0)
      text += fmt::format("{:<20} {:>6.1f} GB {:>6.1f} GB {:>+6.1f} %{}\n", p.run.id, p.peak / 1e9,
                          p.measured_peak / 1e9, p.memory_error() * 100, p.fits ? "" : "  predicted not to fit");
  }
  text +=
      fmt::format("{:<16} {:>5} {:>7} {:>7}   ran: fits, not   failed: not, fits\n", "table", "rows", "mean", "bias");
  for (const auto& s : published::score(all)) {
    text +=
        fmt::format("{:<16} {:>5} {:>5.1f} % {:>+5.1f} % {:>9} {:>5} {:>10} {:>5}\n", s.table, s.memory_rows,
                    s.memory_mean * 100, s.memory_bias * 100, s.ran_fits, s.ran_unfit, s.failed_unfit, s.failed_fits);
    CAPTURE(s.table);
    CHECK(s.memory_mean <= limits.at(s.table));
    CHECK(s.ran_unfit == 0);
    if (s.table != "jz_1b3_v100") continue;
    CHECK(s.memory_rows == 23);
    CHECK(s.failed_unfit >= 1);  // real GPUs lose more memory to fragmentation than the model
  }
  MESSAGE(text);
}
