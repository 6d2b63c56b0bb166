// Which published runs a prediction is compared with: those of its class and sizes, of its GPU generation, or none.
#include <algorithm>
#include <cmath>

#include "helpers.hpp"
#include "scenario/run_class.hpp"

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
  CHECK(kind.generation() == "a100");
  CHECK(kind.framework == "megatron-2021");
  CHECK(kind.attention == "unfused");
  CHECK(kind.recompute == "full");
  CHECK(kind.precision == "16-bit");
  CHECK(kind.layout == "pipeline");
  CHECK(kind.sequence == 2048);
  CHECK(kind.gpus == 1024);
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

TEST_CASE("comparable runs share class and sizes; then the generation; then all that were published") {
  using enum ErrorBand::Among;
  const auto band = [](const std::string& old, const std::string& now) {
    return load_text(with(kMegatron, old, now)).error_band;
  };
  const auto holds = [](const ErrorBand& outer, const ErrorBand& inner) {
    return *outer.low <= *inner.low && *outer.high >= *inner.high;
  };
  const auto own = band("fp16", "bf16");  // both 16 bits
  REQUIRE(own.low);
  CHECK(own.among == comparable);
  CHECK(own.basis.starts_with("comparable are "));
  CHECK(own.basis.find("megatron21_t1") != std::string::npos);

  // Nobody published runs of 2021 with selective recomputation: those of all A100s, which differ more.
  const auto looser = band("recompute: full", "recompute: selective");
  REQUIRE(looser.low);
  CHECK(looser.among == generation);
  CHECK(holds(looser, own));
  CHECK(looser.basis.starts_with("no published run is comparable; "));
  CHECK(looser.basis.find("any framework") != std::string::npos);
  CHECK(band("precision: fp16", "precision: fp32").among == generation);

  // Fewer than five families ran on B200: what all runs say, which is more.
  const auto none = band("dgx-a100-80g", "b200-sxm");
  REQUIRE(none.low);
  CHECK(none.among == all);
  CHECK(none.basis.starts_with("no published run is comparable; all "));
  CHECK(holds(none, looser));
}

TEST_CASE("a mixture of experts has no band of dense models, and what no run was widens it") {
  const std::string dense =
      "version: 1\nmodel: llama3-8b\ncluster: {use: dgx-h100, nodes: 8}\nparallelism: {data: 64, zero: 1}\n"
      "batch: {global: 256, micro: 1}\nframework: megatron-2025\n";
  const auto of = [&](const std::string& text) { return load_text(text).error_band; };
  const auto plain = of(dense), mixture = of(with(dense, "llama3-8b", "mixtral-8x7b"));
  CHECK(mixture.among == ErrorBand::Among::all);
  CHECK(mixture.basis.find("mixtures of experts") != std::string::npos);
  CHECK(*mixture.low < *plain.low);
  CHECK(*mixture.high > *plain.high);
  for (const char* unlike : {"training: {optimizer: sgd}\n", "training: {lora: {rank: 8}}\n",
                             "data_parallel: {kind: parameter-server, servers: 2}\n"}) {
    CAPTURE(unlike);
    const auto other = of(with(dense, "zero: 1", "zero: 0") + unlike);
    CHECK(other.among == ErrorBand::Among::all);
    CHECK(other.basis.starts_with("no published run is comparable: none was "));
    CHECK(*other.high / *other.low > *plain.high / *plain.low);
  }
  CHECK_FALSE(load_text(kGood, {"framework=native", "training.optimizer=sgd"}).error_band.low);
}

// The law of bands, on random classes: a run that is less comparable never gets a narrower band.
TEST_CASE("a band widens with distance, without a jump, and each holds those that are narrower") {
  const auto band = [](double low, double high, double from, double to) {
    KnownBand known{{low, high}, {}};
    known.sizes.sequence = {2048, 4096}, known.sizes.parameters = {1e9, 1e10}, known.sizes.gpus = {from, to};
    return known;
  };
  const auto alike = band(.95, 1.1, 64, 128), such = band(.9, 1.3, 16, 1024), any = band(.7, 1.6, 8, 4096);
  RunClass run;
  run.sequence = 2048, run.parameters = 2e9;
  Told last{{1, 1}, ErrorBand::Among::comparable, 0};
  for (double gpus = 128; gpus < 1e6; gpus *= 1.01) {
    run.gpus = gpus;
    const auto now = told(run, &alike, &such, any), outer = told(run, nullptr, &such, any),
               outermost = told(run, nullptr, nullptr, any);
    CAPTURE(gpus);
    CHECK(now.range.low <= last.range.low);
    CHECK(now.range.high >= last.range.high);
    if (gpus > 128) CHECK(now.range.high / last.range.high < 1.02);
    for (const auto& [wide, narrow] : {std::pair{&outer, &now}, {&outermost, &outer}}) {
      CHECK(wide->range.low <= narrow->range.low + 1e-12);
      CHECK(wide->range.high >= narrow->range.high - 1e-12);
    }
    CHECK((now.among == ErrorBand::Among::comparable) == (gpus < 256));
    last = now;
  }
  run.gpus = 100;
  CHECK(told(run, &alike, &such, any).range.high == 1.1);
  run.experts = true;
  CHECK(told(run, &alike, &such, any).range.high == 1.6);
  // Two things that no run was: twice half the width on either side, ln(1.6 / .7) = .827.
  run.experts = false, run.unlike = {"a", "b"};
  CHECK(told(run, &alike, &such, any).range.high == doctest::Approx(1.6 * std::exp(.827)).epsilon(.001));
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
