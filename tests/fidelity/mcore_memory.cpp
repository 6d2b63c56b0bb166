// Peaks of torch's allocator in Megatron-Core's own functional tests, exact to the byte, of the logging rank: the last
// pipeline rank. Toy sizes, one node of A100 or H100. Launches dominate their steps, so time is not judged.
//
// mcore_memory.csv holds the rows that scenarios can express: GPT models in bf16, dense or with experts in every layer.
// Excluded, of 380: BERT, T5, hybrid and multimodal models 77, fp16 and fp8 21, recomputation 10, groups of
// micro-batches 6, unequal stages 6, Megatron-FSDP 6, deferred weight gradients 5, Muon 3, experts over more GPUs than
// a stage has 7, latent attention or multi-token prediction 3, no peak 1. Vocabularies are those of the tokenizer
// (50,257), padded. Attention counts as fused unless stated. `framework.workspace` is two cuBLAS workspaces (forward
// and autograd threads: 32 MiB each with CUBLAS_WORKSPACE_CONFIG=:4096:8, else 8.125) and Transformer Engine's (32 MiB
// on Hopper, 4 on A100; five with grouped products). No constant was fitted on these rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>

#include "published/against.hpp"

using namespace rehearsal;

namespace {

struct Limit {
  double mean, median;
};
// Measured errors plus a margin. The mean over all rows is 4.8 %, the goal was 5. All are too low. Missing: scores of
// unfused attention in rows of an older container that do not state it (10 dense rows, 19 to 43 %, and 6 with experts),
// and memory of experts beyond their operands: about 150 MB of 2 to 4 GB, unexplained (medians .058 and .055 while
// queries were counted twice, before and after rotation; these models do not rotate).
const std::map<std::string, Limit> kLimits{{"mcore_golden_gpt_a100", {.037, .018}},
                                           {"mcore_golden_gpt_h100", {.030, .014}},
                                           {"mcore_golden_moe_a100", {.114, .064}},
                                           {"mcore_golden_moe_h100", {.070, .060}}};

}  // namespace

TEST_CASE("peaks of Megatron-Core's functional tests") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  published::ValidationRun against;
  against.forecast = false;
  against.jobs = std::max(1u, std::thread::hardware_concurrency());
  std::map<std::string, std::vector<double>> errors;
  for (const auto& p : published::predict(published::read_runs(TEST_DATA "/fidelity/mcore_memory.csv"), against)) {
    CAPTURE(p.run.id);
    CHECK(p.not_judged == "");
    REQUIRE(p.measured_peak > 0);
    errors[p.run.table].push_back(std::abs(p.memory_error()));
  }
  REQUIRE(errors.size() == kLimits.size());
  for (auto& [table, all] : errors) {
    std::sort(all.begin(), all.end());
    double mean = 0;
    for (const double e : all) mean += e / double(all.size());
    CAPTURE(table);
    MESSAGE(table << ": " << all.size() << " rows, mean " << mean * 100 << " %, median " << all[all.size() / 2] * 100
                  << " %");
    CHECK(mean <= kLimits.at(table).mean);
    CHECK(all[all.size() / 2] <= kLimits.at(table).median);
  }
}
