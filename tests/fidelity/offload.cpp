// Steps with states on the host, against measurements (offload.csv; rows of quality A and B).
//
// Fitted were: the share of memory bandwidth that an optimizer reaches, to DeepSpeed's CPU-Adam on Grace (4 rows);
// DeepSpeed's overhead per step, to the Qwen rows (3). All other rows are judged without any fit.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "answer/predict.hpp"
#include "cost/cost_model.hpp"
#include "table.hpp"

using namespace rehearsal;
using fidelity::Row, fidelity::rows;

namespace {

scenario::Scenario load(const std::string& text, const std::vector<std::string>& sets = {}) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  return scenario::load_text(text, "offload", sets);
}

// Bytes per parameter of one step in fp32, including the read of the gradient. torch runs operation by operation: lerp
// 12, mul and addcmul 20, root, quotient and sum of temporaries 24, addcdiv 16, and 4 for lines of new arrays.
double adam_bytes(const std::string& framework) { return framework.starts_with("PyTorch") ? 76 : 28; }

double adam_seconds(const Row& row) {
  const auto c = *load(
                      "version: 1\nmodel: llama3-8b\ncluster: {use: gb200-nvl72, gpus: 1}\nparallelism: {data: 1}\n"
                      "batch: {global: 1, micro: 1}\nframework: fsdp-2023\n")
                      .concrete;
  const cost::CostModel model(c.cluster, c.curves, c.framework);
  const double parameters = std::stod(row.at("params_b")) * 1e9;
  return model.host_step({parameters, bytes(parameters * adam_bytes(row.at("framework")))});
}

// One of the 16 V100 of a DGX-2 was used; layers per size as given by the figure's sources. The batch is not printed:
// the largest that fits.
double teraflops_on_one(const Row& row) {
  static const std::map<double, std::pair<int, int>> kShapes{
      {10, {50, 4096}}, {13, {65, 4096}}, {20, {98, 4096}}, {40, {50, 8192}}};
  const auto [layers, hidden] = kShapes.at(std::stod(row.at("params_b")));
  const bool whole = row.at("framework").find("ZeRO-3") == std::string::npos;
  double best = 0;
  for (int micro = 1; micro <= 64; micro = micro < 4 ? micro * 2 : micro + 4) {
    const auto prediction = answer::predict(load(fmt::format(
        "version: 1\ncluster: {{use: dgx2-v100-32g, gpus: 1}}\nmodel: {{family: gpt, layers: {}, hidden: {}, heads: "
        "{}, "
        "vocabulary: 50257, sequence: 1024}}\nbatch: {{global: {}, micro: {}}}\nframework: deepspeed-2021\ntraining: "
        "{{precision: fp16, attention: unfused, recompute: full, overlap: {{gradients: true}}, offload: {{optimizer: "
        "host, "
        "gradients: host{}}}}}\n",
        layers, hidden, hidden / 128, micro, micro, whole ? "" : ", parameters: host")));
    if (prediction.summary.fits != true) break;
    best = *prediction.summary.model_tflops_per_gpu;
  }
  return best;
}

// Two A100 of one host, 4 sequences each. The sequence length is not printed: it is chosen so that the step without
// offloading takes the measured time.
const std::string kQwen =
    "version: 1\ncluster: {use: dgx-a100-40g, gpus: 2}\nbatch: {global: 8, micro: 4}\nparallelism: {data: 2, zero: 2}\n"
    "framework: {use: deepspeed-2021, dropout: false}\n"
    "training: {precision: bf16, gradient_precision: bf16, overlap: {gradients: true}}\n";
double qwen_seconds(const std::string& model, int sequence, bool offload) {
  const char* shape = model.find("1.5B") != std::string::npos
                          ? "layers: 28, hidden: 1536, heads: 12, kv_heads: 2, ffn: 8960"
                          : "layers: 36, hidden: 2048, heads: 16, kv_heads: 2, ffn: 11008";
  const auto prediction = answer::predict(
      load(kQwen, {fmt::format("model={{family: llama, {}, vocabulary: 151936, sequence: {}, tie_embeddings: true}}",
                               shape, sequence),
                   offload ? "training.offload={optimizer: host, gradients: host}" : "training.offload={}"}));
  return to_seconds(prediction.summary.iteration);
}
int qwen_sequence(double measured) {
  int best = 64;
  for (int s = 64; s <= 2048; s += 64)
    if (std::abs(qwen_seconds("1.5B", s, false) - measured) < std::abs(qwen_seconds("1.5B", best, false) - measured))
      best = s;
  return best;
}

}  // namespace

TEST_CASE("optimizers, steps and throughput with states on the host") {
  std::map<std::string, std::pair<double, int>> mean;
  const auto judge = [&](const std::string& family, const Row& row, double predicted, double measured) {
    const double error = predicted / measured - 1;
    auto& [sum, count] = mean[family];
    sum += std::abs(error), ++count;
    MESSAGE(fmt::format("{:<28} {:<28} measured {:8.3f} predicted {:8.3f} {:+6.1f} %", row.at("id"),
                        row.at("framework"), measured, predicted, 100 * error));
  };
  int sequence = 0;
  for (const auto& row : rows("offload.csv"))
    if (row.at("config") == "ZeRO-2; no offload") sequence = qwen_sequence(std::stod(row.at("value")) * 1e-3);
  REQUIRE(sequence > 64);
  for (const auto& row : rows("offload.csv")) {
    const double value = std::stod(row.at("value"));
    const auto table = row.at("table");
    if (table == "cpu_adam_grace")
      judge(row.at("framework"), row, adam_seconds(row), value);
    else if (table == "ds_zero_offload_1gpu")
      judge(row.at("framework"), row, teraflops_on_one(row), value);
    else if (row.at("config") != "ZeRO-2; no offload")
      judge("Qwen2.5 with ZeRO-2 offload", row, qwen_seconds(row.at("model"), sequence, true), value * 1e-3);
  }
  double all = 0;
  int count = 0;
  for (const auto& [family, of] : mean) {
    MESSAGE(fmt::format("{:<28} {:5.1f} % in the mean of {}", family, 100 * of.first / of.second, of.second));
    all += of.first, count += of.second;
  }
  MESSAGE(fmt::format("all {:5.1f} % of {}", 100 * all / count, count));
  CHECK(all / count < .2);
}
