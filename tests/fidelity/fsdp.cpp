// Published runs with fully sharded parameters (ZeRO-3): MPT on MosaicML's A100 clusters (FSDP, 125M to 70B, 8 to 128
// GPUs), torchtitan's Llama 3 on H100 of 500 W, and DeepSpeed's ZeRO-3 of 2021 in Table 2 of arXiv 2104.04473.
// Predicted against measured iteration time, and peak memory where it is printed.
//
// Every row goes through one mapping, below; nothing belongs to a row or to a table. What comes from these tables: the
// attention rate of fsdp-2023 (MPT 125M and 350M), and of the 500 W H100 its clock and its attention rate (titan_t1,
// first row of titan_t2). Nothing was set for ZeRO.
//
// Known to be wrong, printed all the same: DeepSpeed's ZeRO-3 of 2021 (megatron21_t2) gathered tensor by tensor over a
// small part of the wire, which no key describes: predicted 1.3 to 3.2 times too fast. torchtitan's selective
// recomputation goes by operator, here it is the attention core only: rows with it hold too much memory, and those with
// large micro-batches are too fast. Row-wise float8 was slower than bf16, here it is tensor-wise.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "explore/rehearse.hpp"
#include "report/summary.hpp"

using namespace rehearsal;

namespace {

using Row = std::map<std::string, std::string>;

// Fields may be quoted; a quote inside is doubled.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::vector<Row> rows() {
  std::ifstream file(TEST_DATA "/fidelity/fsdp.csv");
  std::string line;
  std::getline(file, line);
  const auto names = cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const auto values = cells(line);
    REQUIRE(values.size() == names.size());
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); i++) row[names[i]] = values[i];
  }
  return rows;
}

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string cluster(const Row& row) {
  const auto& gpu = row.at("gpu");
  const char* name = begins(gpu, "H100")               ? "h100-96g-500w"
                     : begins(gpu, "A100-40GB")        ? "a100-40g-roce"
                     : row.at("table") == "mosaic_mpt" ? "a100-80g-roce"
                                                       : "dgx-a100-80g";
  return fmt::format("cluster={{use: {}, nodes: {}}}", name, std::stoi(row.at("gpus")) / 8);
}

std::vector<std::string> scenario_of(const Row& row) {
  const auto& precision = row.at("precision");
  const auto& table = row.at("table");
  const bool titan = begins(table, "titan"), mosaic = table == "mosaic_mpt";
  const bool llama = has(row.at("model"), "LLAMA");
  const char* stored = has(precision, "loat8") ? "fp8" : has(precision, "bf16") ? "bf16" : "fp16";
  const char* recompute = has(row.at("recompute"), "selective") ? "selective"
                          : begins(row.at("recompute"), "full") ? "full"
                                                                : "none";
  return {
      fmt::format("model={{family: {}, layers: {}, hidden: {}, heads: {}, kv_heads: {}, ffn: {}, vocabulary: {}, "
                  "sequence: {}}}",
                  llama ? "llama" : "gpt", row.at("layers"), row.at("hidden"), row.at("heads"), row.at("kv_heads"),
                  row.at("ffn"), row.at("vocabulary"), row.at("sequence")),
      cluster(row),
      fmt::format("parallelism={{tensor: {}, sequence: {}, zero: {}}}", row.at("tensor"),
                  begins(row.at("sequence_parallel"), "yes"), row.at("zero")),
      fmt::format("batch={{global: {}, micro: {}}}", row.at("global"), row.at("micro")),
      // PURE of Composer: everything in 16 bit, the reduction too.
      fmt::format("training={{precision: {}, recompute: {{mode: {}{}}}, attention: {}{}}}", stored, recompute,
                  begins(precision, "amp") ? ", early_stop: true" : "", titan || mosaic ? "flash" : "unfused",
                  has(precision, "PURE") ? ", gradient_precision: bf16" : ""),
      titan    ? fmt::format("software={{use: titan-2024, compiled: {}}}", !begins(precision, "eager"))
      : mosaic ? "software=fsdp-2023"
               : "software=deepspeed-2021",
  };
}

struct Score {
  std::vector<double> errors, rates, memory;  // signed; FLOP/s per GPU as executed; signed
};
double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += std::abs(x) / double(v.size());
  return sum;
}
double bias_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x / double(v.size());
  return sum;
}
double percentile(std::vector<double> v, double p) {
  for (double& x : v) x = std::abs(x);
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, std::size_t(p * double(v.size())))];
}
// The best single rate for a table, fitted on that very table.
double constant_rate(const std::vector<double>& rates) {
  double log_rate = 0;
  std::vector<double> errors;
  for (const double r : rates) log_rate += std::log(r) / double(rates.size());
  for (const double r : rates) errors.push_back(r / std::exp(log_rate) - 1);
  return mean_of(errors);
}

}  // namespace

TEST_CASE("runs with ZeRO-3") {
  std::map<std::string, Score> tables;
  std::string text = "\n";
  for (const auto& row : rows()) {
    CAPTURE(row.at("id"));
    const auto scenario = scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", scenario_of(row));
    const auto run = explore::rehearse(scenario);
    const double predicted = to_seconds(run.timeline.makespan()), measured = std::stod(row.at("iteration_s"));
    auto& score = tables[row.at("table")];
    score.errors.push_back(predicted / measured - 1);
    score.rates.push_back(run.prepared.hardware_flops.value() / double(scenario.parallelism.gpus()) / measured);
    text += fmt::format("{:<20} {:<14} {:>5} GPUs {:>9.3f} s {:>9.3f} s {:>+7.1f} %", row.at("id"), row.at("model"),
                        row.at("gpus"), predicted, measured, score.errors.back() * 100);
    if (!row.at("peak_gib").empty()) {
      const auto summary = report::summarize({scenario,
                                              run.prepared.graph,
                                              run.timeline,
                                              run.prepared.durations,
                                              run.prepared.model_flops,
                                              run.prepared.hardware_flops,
                                              {},
                                              {}});
      const double reserved = *summary.peak.reserved / double(1 << 30), printed = std::stod(row.at("peak_gib"));
      score.memory.push_back(reserved / printed - 1);
      text += fmt::format("  {:>5.1f} GiB {:>5.1f} GiB {:>+6.1f} %", reserved, printed, score.memory.back() * 100);
    }
    text += "\n";
  }
  text += fmt::format("{:<20} {:>5} {:>7} {:>7} {:>7} {:>7}   {:<14} {}\n", "table", "rows", "mean", "median", "p90",
                      "bias", "constant rate", "memory: mean, bias");
  for (const auto& [name, s] : tables) {
    text += fmt::format("{:<20} {:>5} {:>5.1f} % {:>5.1f} % {:>5.1f} % {:>+5.1f} %   {:>5.1f} %", name, s.errors.size(),
                        mean_of(s.errors) * 100, percentile(s.errors, .5) * 100, percentile(s.errors, .9) * 100,
                        bias_of(s.errors) * 100, constant_rate(s.rates) * 100);
    if (!s.memory.empty())
      text += fmt::format("        {:>5.1f} % {:>+5.1f} %", mean_of(s.memory) * 100, bias_of(s.memory) * 100);
    text += "\n";
  }
  MESSAGE(text);
  REQUIRE(tables["mosaic_mpt"].errors.size() == 139);
  CHECK(mean_of(tables["mosaic_mpt"].errors) <= .06);
  for (const char* table : {"mosaic_mpt", "titan_t1", "titan_t3"}) {
    CAPTURE(table);
    REQUIRE(tables[table].errors.size() >= 3);
    CHECK(mean_of(tables[table].errors) < constant_rate(tables[table].rates) / 2);
  }
}
