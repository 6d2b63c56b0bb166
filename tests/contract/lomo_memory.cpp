// LLaMA 7B in the setting of LOMO's Table 1 (arXiv 2306.09782): 8 sequences of 512 tokens, fp16, attention as matrix
// products. Tests which GPU fits what; the paper's figures, in GiB that it calls GB, are shown beside ours but not
// judged.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const std::string kSetting = R"(version: 1
model: {use: llama2-7b, sequence: 512}
cluster: {use: dgx-a100-80g, gpus: 1}
batch: {global: 8, micro: 8}
training: {precision: fp16, recompute: full, attention: unfused}
framework: fsdp-2023
)";
constexpr double kGiB = 1 << 30;

answer::Result with_optimizer(const std::string& optimizer, Sets sets) {
  sets.push_back("training.optimizer=" + optimizer);
  return predicted(kSetting, sets);
}
double allocated(const std::string& optimizer, bool recomputes) {
  return with_optimizer(optimizer, {recomputes ? "training.recompute=full" : "training.recompute=none"})
             .summary.peak.allocated /
         kGiB;
}

}  // namespace

TEST_CASE("states by optimizer, and activations that are the same for all") {
  struct Row {
    const char* optimizer;
    double states;         // bytes of a parameter, its own included
    double with, without;  // recomputation, as printed
  };
  const Row rows[] = {{"adamw", 16, 102.20, 147.02}, {"sgd", 8, 51.99, 96.81}, {"lomo", 2, 14.58, 59.40}};
  const double parameters = 6738415616.;
  std::map<std::string, double> beside;  // the states, without recomputation
  for (const auto& row : rows) {
    const double with = allocated(row.optimizer, true), without = allocated(row.optimizer, false);
    MESSAGE(row.optimizer,
            fmt::format(": {:.2f} GiB with recomputation ({:.2f} in the paper: {:+.1f} %), {:.2f} without "
                        "({:.2f}: {:+.1f} %)",
                        with, row.with, 100 * (with / row.with - 1), without, row.without,
                        100 * (without / row.without - 1)));
    const double states = row.states * parameters / kGiB;
    // A checkpoint of 2 s b h bytes for each layer, one layer's activations, and less than a GiB of all else.
    CHECK(with > states + 1);
    CHECK(with < states + 2.5);
    beside[row.optimizer] = without - states;
  }
  CHECK(beside["adamw"] == doctest::Approx(beside["sgd"]).epsilon(1e-6));
  // LOMO's two gradients and copies of the head beside them: 2 x 2 and 8 bytes of 131 M parameters at the most.
  CHECK(beside["lomo"] > beside["sgd"]);
  CHECK(beside["lomo"] < beside["sgd"] + 12 * 32000. * 4096 / kGiB);
}

TEST_CASE("24 GB hold LOMO alone, 40 GB no SGD, 80 GB no AdamW") {
  const std::map<std::string, std::map<std::string, bool>> expected = {
      {"rtx3090-pcie", {{"lomo", true}, {"adalomo", true}, {"sgd", false}, {"adamw", false}}},
      {"dgx-a100-40g", {{"lomo", true}, {"adalomo", true}, {"sgd", false}, {"adamw", false}}},
      {"dgx-a100-80g", {{"lomo", true}, {"adalomo", true}, {"sgd", true}, {"adamw", false}}},
      {"h200-sxm", {{"lomo", true}, {"adalomo", true}, {"sgd", true}, {"adamw", true}}}};
  for (const auto& [cluster, optimizers] : expected)
    for (const auto& [optimizer, fits] : optimizers) {
      CAPTURE(cluster);
      CAPTURE(optimizer);
      CHECK(with_optimizer(optimizer, {"cluster={use: " + cluster + ", gpus: 1}"}).summary.fits == fits);
    }
  // Without recomputation LOMO needs more than 24 GB as well.
  const Sets small{"cluster={use: rtx3090-pcie, gpus: 1}", "training.recompute=none"};
  CHECK(with_optimizer("lomo", small).summary.fits == false);
}
