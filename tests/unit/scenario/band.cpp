// Which published runs a prediction is compared with, and what of it widens its band.
#include <algorithm>
#include <cmath>

#include "helpers.hpp"
#include "scenario/error_band.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

// As Megatron-LM 2021 trained GPT-3 175B on Selene; Table 1 of arXiv 2104.04473 and the figures after it have such
// runs.
const std::string kMegatron =
    "version: 1\nmodel: gpt3-175b\ncluster: {use: dgx-a100-80g, nodes: 128}\n"
    "parallelism: {tensor: 8, pipeline: 8, data: 16}\nbatch: {global: 1536, micro: 1}\nframework: megatron-2021\n"
    "training: {precision: fp16, recompute: full, attention: unfused}\n";

}  // namespace

TEST_CASE("the class of a run") {
  const auto kind = run_class(load_text(kMegatron));
  CHECK(kind.gpu == "a100-80g-sxm");
  CHECK(kind.framework == "megatron-2021");
  CHECK(kind.attention == "unfused");
  CHECK(kind.recompute == "full");
  CHECK(kind.precision == "16-bit");
  CHECK(kind.layout == "pipeline");
  CHECK(kind.sequence == 2048);
  CHECK(kind.gpus == 1024);
  CHECK(kind.experts == "none");
  CHECK(kind.tokens == 2048);
  CHECK_FALSE(kind.eager);
  CHECK(kind.parameters == doctest::Approx(174.6e9).epsilon(.001));
  const auto layout = [](const std::string& degrees) {
    return run_class(load_text(with(with(with(kMegatron, "gpt3-175b", "llama2-7b"), "1536", "1024"),
                                    "{tensor: 8, pipeline: 8, data: 16}", "{" + degrees + "}")))
        .layout;
  };
  CHECK(layout("data: 1024") == "data");
  CHECK(layout("data: 1024, zero: 1") == "data");
  CHECK(layout("data: 1024, zero: 3") == "sharded");
  CHECK(layout("tensor: 2, zero: 3") == "tensor");
  CHECK(layout("tensor: 2, pipeline: 2") == "pipeline");
}

TEST_CASE("comparable runs share class and sizes; what is less known has a wider band") {
  const auto band = [](const std::string& old, const std::string& now, double waiting = .1) {
    return error_band(load_text(with(kMegatron, old, now)), waiting);
  };
  const auto holds = [](const ErrorBand& outer, const ErrorBand& inner) {
    return *outer.low <= *inner.low && *outer.high >= *inner.high;
  };
  const auto own = band("fp16", "bf16");  // both 16 bits
  REQUIRE(own.low);
  CHECK(own.comparable);
  CHECK(own.basis.starts_with("comparable are "));
  CHECK(own.basis.find("megatron21_t1") != std::string::npos);

  // Nobody published runs of 2021 with selective recomputation.
  const auto looser = band("recompute: full", "recompute: selective");
  REQUIRE(looser.low);
  CHECK_FALSE(looser.comparable);
  CHECK(holds(looser, own));
  CHECK(looser.basis.starts_with("no published run is like this one"));
  // Who waits for others is predicted worse.
  CHECK(*band("fp16", "bf16", .3).high > *own.high);
}

TEST_CASE("features move a band, and what no run was widens it") {
  const std::string dense =
      "version: 1\nmodel: llama3-8b\ncluster: {use: dgx-h100, nodes: 8}\nparallelism: {data: 64, zero: 1}\n"
      "batch: {global: 256, micro: 1}\nframework: megatron-2025\n";
  const auto of = [&](const std::string& text) { return error_band(load_text(text), .05); };
  const auto plain = of(dense);
  CHECK(*of(with(dense, "llama3-8b", "qwen3-30b-a3b")).high > *plain.high);
  CHECK(of(with(dense, "llama3-8b", "qwen3-30b-a3b")).basis.find("fine-grained") != std::string::npos);
  for (const char* unlike : {"training: {optimizer: sgd}\n", "data_parallel: {kind: parameter-server, servers: 2}\n"}) {
    CAPTURE(unlike);
    const auto other = of(with(dense, "zero: 1", "zero: 0") + unlike);
    CHECK_FALSE(other.comparable);
    CHECK(other.basis.find("none was ") != std::string::npos);
    CHECK(*other.high / *other.low > *plain.high / *plain.low);
  }
  CHECK_FALSE(error_band(load_text(kGood, {"framework=native", "training.optimizer=sgd"}), 0).low);
}

// The law of bands: a run that is less comparable never gets a narrower band.
TEST_CASE("a band widens with distance, without a jump, and each holds those that are narrower") {
  BandModel model;
  model.base = {.05, .1};
  model.factors = {{"new_family", {1.5, 2}}, {"new_gpu", {3, 1.2}}, {"few_tokens", {2, 2}}};
  model.sizes.sequence = {2048, 4096}, model.sizes.parameters = {1e9, 1e10}, model.sizes.gpus = {16, 1024};
  RunClass run;
  run.gpu = "h100", run.framework = "f", run.sequence = 2048, run.parameters = 2e9;
  auto sizes = model.sizes;
  sizes.gpus = {64, 128};
  model.classes[class_of(run)] = {sizes, 8, "8 t"};
  model.gpus["h100"] = model.frameworks["f"] = 8;
  const auto at = [&](double gpus, const char* gpu = "h100") {
    auto its = run;
    its.gpus = gpus, its.gpu = gpu;
    return told(its, model);
  };
  BandRange last{1, 1};
  for (double gpus = 128; gpus < 1e6; gpus *= 1.01) {
    const auto now = at(gpus);
    CAPTURE(gpus);
    CHECK(now.range.low <= last.low);
    CHECK(now.range.high >= last.high);
    if (gpus > 128) CHECK(now.range.high / last.high < 1.02);
    CHECK((now.comparable != nullptr) == (gpus < 256));
    const auto other = at(gpus, "z100");
    CHECK(other.range.low <= now.range.low);
    CHECK(other.range.high >= now.range.high);
    last = now.range;
  }
  CHECK(std::log(at(100).range.high) == doctest::Approx(.1));
  CHECK(std::log(at(512).range.high) == doctest::Approx(.2));          // unlike all of its class
  CHECK(std::log(at(512, "z100").range.high) == doctest::Approx(.2));  // at least what a new family has
  CHECK(std::log(at(512, "z100").range.low) == doctest::Approx(-.15));
  // Two things that no run was: twice half the width on either side.
  run.unlike = {"a", "b"};
  CHECK(std::log(at(100).range.high) == doctest::Approx(.3));
  // Tokens become few from 4,096 to 2,048 on.
  run.unlike.clear();
  for (const auto& [tokens, high] : {std::pair{8192., .1}, {3072., .1 * std::sqrt(2.)}, {2048., .2}, {64., .2}}) {
    run.tokens = tokens;
    CHECK(std::log(at(100).range.high) == doctest::Approx(high));
  }
}

TEST_CASE("who names no framework hears of the others that may be meant") {
  const auto flash = load_text(kGood);
  CHECK_FALSE(flash.framework_named);
  CHECK(flash.concrete->framework.name == "megatron-2025");
  const auto among = [](const Scenario& scenario, const char* name) {
    return std::count_if(scenario.other_framework.begin(), scenario.other_framework.end(),
                         [&](const auto& other) { return other.framework.name == name; }) == 1;
  };
  CHECK(among(flash, "titan-2025"));
  CHECK(among(flash, "megatron-2026"));
  CHECK_FALSE(among(flash, "megatron-2025"));  // the one that was assumed
  CHECK_FALSE(among(flash, "megatron-2021"));  // had no fused attention
  // Whatever the ZeRO level, so that levels are compared on one framework; what shards parameters may be PyTorch's.
  const auto sharded = load_text(with(kMegatron, "framework: megatron-2021\n", ""),
                                 {"parallelism={data: 1024, zero: 3}", "batch.global=1024", "training.attention=flash",
                                  "training.precision=bf16"});
  CHECK(sharded.concrete->framework.name == "megatron-2025");
  CHECK(among(sharded, "titan-2025"));
  CHECK(among(sharded, "fsdp-2024"));
  CHECK(load_text(kMegatron).framework_named);
  CHECK(load_text(kMegatron).other_framework.empty());
  CHECK(load_text(kGood, {"framework=fsdp-2023"}).other_framework.empty());
  CHECK(load_text(kGoodAbstract).other_framework.empty());
}
