// Which published runs a prediction is compared with: of its own class and sizes, of its generation of GPUs, or none.
#include <algorithm>

#include "helpers.hpp"
#include "scenario/run_class.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

// As Megatron-LM 2021 trained GPT-3 175B on Selene; Table 1 of arXiv 2104.04473 and the figures after it have such
// runs.
const std::string kMegatron =
    "version: 1\nmodel: gpt3-175b\ncluster: {use: dgx-a100-80g, nodes: 128}\n"
    "parallelism: {tensor: 8, pipeline: 8, data: 16}\nbatch: {global: 1536, micro: 1}\nsoftware: megatron-2021\n"
    "training: {precision: fp16, recompute: full, attention: unfused}\n";

}  // namespace

TEST_CASE("the class of a run") {
  const auto kind = run_class(load_text(kMegatron));
  CHECK(kind.gpu == "a100-80g-sxm");
  CHECK(kind.generation() == "a100");
  CHECK(kind.software == "megatron-2021");
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
  const auto own = band("fp16", "bf16");  // both 16 bits
  REQUIRE(own.low);
  CHECK(own.among == comparable);
  CHECK(own.basis.find("megatron21_t1") != std::string::npos);

  // Nobody published runs of 2021 with selective recomputation: those of all A100s, which differ more.
  const auto looser = band("recompute: full", "recompute: selective");
  REQUIRE(looser.low);
  CHECK(looser.among == generation);
  CHECK(*looser.high / *looser.low > *own.high / *own.low);
  CHECK(looser.basis.find("any software") != std::string::npos);

  for (const auto& [old, now] :
       {std::pair{"precision: fp16", "precision: fp32"}, {"micro: 1}", "micro: 1, sequence: 64}"}}) {
    CAPTURE(now);
    CHECK(band(old, now).among == generation);
  }
  // Fewer than five families ran on B200: what all runs say, which is more.
  const auto none = band("dgx-a100-80g", "b200-sxm");
  REQUIRE(none.low);
  CHECK(none.among == all);
  CHECK(none.basis.find("none is like this one") == 0);
  CHECK(*none.high / *none.low > *own.high / *own.low);
  // Twice as far as the runs went is their order still, more is not.
  CHECK(kReach == 2);
  CHECK(band("nodes: 128}\nparallelism: {tensor: 8, pipeline: 8, data: 16}\nbatch: {global: 1536",
             "nodes: 1024}\nparallelism: {tensor: 8, pipeline: 8, data: 128}\nbatch: {global: 1536")
            .among == generation);
}

TEST_CASE("who names no software hears of the others that ran with such attention") {
  const auto flash = load_text(kGood);
  CHECK(flash.concrete->software.name == "fsdp-2023");
  const auto among = [&](const char* name) {
    return std::count(flash.other_software.begin(), flash.other_software.end(), name) == 1;
  };
  CHECK(among("titan-2024"));
  CHECK(among("megatron-2026"));
  CHECK_FALSE(among("fsdp-2023"));      // the one that was assumed
  CHECK_FALSE(among("megatron-2021"));  // had no fused attention
  CHECK(load_text(kMegatron).other_software.empty());
  CHECK(load_text(kGood, {"software=fsdp-2023"}).other_software.empty());
  CHECK(load_text(kGoodAbstract).other_software.empty());
}
