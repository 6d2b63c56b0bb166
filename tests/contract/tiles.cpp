// Operators in tiles (ZeRO-Infinity, arXiv 2104.07857, sections 3 and 5.1.3): their memory on a GPU during compute, the
// largest block that needs, its cost, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

constexpr double kHidden = 4096;
// No prefetch ahead of compute, and no delayed write-back.
const std::string kOne = R"(version: 1
model: {family: gpt, layers: 4, hidden: 4096, heads: 32, vocabulary: 128, sequence: 128, tie_embeddings: false}
cluster: {use: dgx2-v100-32g, gpus: 16}
parallelism: {data: 16, zero: 3}
batch: {global: 32, micro: 2}
training: {precision: fp16, attention: unfused, overlap: {gradients: false, parameters: false}}
framework: {use: deepspeed-2021, sharded_tensors: 1}
)";
const Sets kFetched{"cluster.gpus=1", "parallelism={data: 1}", "batch.global=2",
                    "training.offload={optimizer: host, gradients: host, parameters: host, prefetch: 0}"};

std::string tiles(std::int64_t number) { return fmt::format("training.offload.tiles={}", number); }
double seconds_of(const answer::Result& p) { return to_seconds(p.timeline.makespan()); }
double computes(const answer::Result& p) {
  return to_seconds(p.summary.breakdown[static_cast<std::size_t>(graph::Category::compute)]);
}
// Peak of gathered or fetched parameters and gradients in transit.
double working(const answer::Result& p) {
  Bytes most;
  for (const auto& point : timeline::memory_curve(p.graph(), p.timeline, RankId(0)))
    most = std::max(most, point.live[static_cast<std::size_t>(graph::MemoryCategory::communication)]);
  return double(most.count());
}
// The largest of the temporary arrays on the device.
double largest_buffer(const answer::Result& p) {
  const auto& program = p.graph().programs().front();
  Bytes most;
  for (std::uint32_t b = program.residents; b < program.buffers.size(); ++b)
    if (program.buffers[b].tier == Tier::device && program.buffers[b].category == graph::MemoryCategory::communication)
      most = std::max(most, program.buffers[b].size);
  return double(most.count());
}

}  // namespace

TEST_CASE("eq. 4: parameters and gradients of the largest operator, a T-th of them") {
  for (const auto& sets : {Sets{}, kFetched})
    for (const char* recompute : {"none", "full"}) {
      const auto at = [&](std::int64_t number) {
        return working(predicted(kOne, with(sets, {tiles(number), fmt::format("training.recompute={}", recompute)})));
      };
      // 4h x h, and the bias of its 4h columns, in 2 bytes each, twice; beside it the ends and the vectors of the
      // layer.
      const double operators = 2 * 2 * (4 * kHidden * kHidden + 4 * kHidden);
      const double two = at(2), four = at(4), sixteen = at(16);
      CHECK(two - four == doctest::Approx(operators * (1 / 2. - 1 / 4.)));
      CHECK(four - sixteen == doctest::Approx(operators * (1 / 4. - 1 / 16.)));
      // Without tiles a layer comes and goes as a whole: 12 h^2.
      CHECK(at(1) - two == doctest::Approx(2 * 2 * 12 * kHidden * kHidden - operators / 2).epsilon(.01));
    }
}

TEST_CASE("as many bytes, in more and smaller calls and products, and so never sooner") {
  for (const auto& sets : {Sets{}, kFetched}) {
    const auto whole = predicted(kOne, sets);
    double before = seconds_of(whole), computing = computes(whole);
    double calls = double(whole.graph().programs().front().size());
    for (const std::int64_t number : {2, 4, 16}) {
      const auto cut = predicted(kOne, with(sets, {tiles(number)}));
      const auto &a = whole.summary.traffic.per_gpu, &b = cut.summary.traffic.per_gpu;
      CHECK(b.data == doctest::Approx(a.data).epsilon(1e-6));
      CHECK(b.offload_in == doctest::Approx(a.offload_in).epsilon(1e-6));
      CHECK(b.offload_out == doctest::Approx(a.offload_out).epsilon(1e-6));
      CHECK(cut.lowered->hardware_flops.value() == doctest::Approx(whole.lowered->hardware_flops.value()));
      if (sets.empty()) CHECK(seconds_of(cut) > before);  // smaller copies in and out overlap sooner
      CHECK(computes(cut) > computing);
      CHECK(double(cut.graph().programs().front().size()) > calls);
      before = seconds_of(cut), computing = computes(cut), calls = double(cut.graph().programs().front().size());
    }
  }
  // The backward does not find what the layer recomputed with, so it fetches a third time, as the paper counts.
  const Sets again = with(kFetched, {"training.recompute=full", "model.layers=24"});
  const double in = predicted(kOne, again).summary.traffic.per_gpu.offload_in,
               tiled = predicted(kOne, with(again, {tiles(2)})).summary.traffic.per_gpu.offload_in;
  CHECK(tiled == doctest::Approx(1.5 * in).epsilon(.01));
}

TEST_CASE("one tile is no tile, whatever the detail; more are simulated operator by operator") {
  for (const auto& sets : {Sets{}, kFetched}) {
    const auto none = predicted(kOne, sets), one = predicted(kOne, with(sets, {tiles(1)}));
    CHECK(none.timeline.makespan() == one.timeline.makespan());
    CHECK(none.summary.peak.allocated == one.summary.peak.allocated);
    const auto coarse = predicted(kOne, with(sets, {tiles(4)})),
               fine = predicted(kOne, with(sets, {tiles(4), "simulate.detail=operator"}));
    CHECK(coarse.timeline.makespan() == fine.timeline.makespan());
    CHECK(coarse.summary.peak.allocated == fine.summary.peak.allocated);
  }
}

TEST_CASE("tiles with pipelines, split backwards, tensor and context groups, experts and other frameworks") {
  const auto less = [](const Sets& sets) {
    CAPTURE(sets.front());
    const auto whole = predicted(kOne, sets), cut = predicted(kOne, with(sets, {tiles(8)}));
    CHECK(working(cut) < working(whole));
    CHECK(seconds_of(cut) > seconds_of(whole));
  };
  less({"parallelism={data: 8, pipeline: 2, zero: 3}"});
  less({"parallelism={data: 8, pipeline: 2, zero: 3}", "schedule=zb-h1"});
  less({"parallelism={data: 4, tensor: 4, zero: 3}"});
  less({"parallelism={data: 4, tensor: 4, zero: 3, sequence: true}"});
  less({"cluster={use: dgx-a100-80g, nodes: 2}", "parallelism={data: 4, context: 4, zero: 3}",
        "training.attention=flash"});
  less({"framework=fsdp-2023", "model.family=llama", "model.kv_heads=4"});
  less({"framework=fsdp-2023", "training.fsdp.reshard_after_forward=false"});
  less({"framework=fsdp-2023", "training.recompute.modules=[mlp]", "training.overlap={gradients: true}"});
  less({"cluster={use: dgx-a100-80g, nodes: 2}", "model.family=moe", "model.experts=16", "model.experts_per_token=2",
        "model.expert_ffn=512", "model.shared_experts=1", "model.ffn=512"});
}

// Section 5.1.3 and fig. 6b: with memory fragmented beforehand into pieces of 2 GB, V100s of 32 GB compute a layer of
// 64K columns with 16 tiles, but only 8K columns without.
TEST_CASE("the widest layer in pieces of 2 GB: 8K columns without tiles, 64K with 16") {
  const auto widest = [](std::int64_t number) {
    std::int64_t hidden = 4096;
    const auto fits = [&](std::int64_t columns) {
      const auto p = predicted(
          kOne,
          with(kFetched, {fmt::format("model.hidden={}", columns), "model.layers=1", "batch={global: 1, micro: 1}",
                          "training.recompute=full",
                          "training.offload={optimizer: nvme, gradients: nvme, parameters: nvme}", tiles(number)}));
      return p.summary.fits == true && largest_buffer(p) <= 2. * 1024 * 1024 * 1024 + 1e6;  // with its bias
    };
    REQUIRE(fits(hidden));
    while (fits(2 * hidden)) hidden *= 2;
    return hidden;
  };
  CHECK(widest(1) == 8 * 1024);
  CHECK(widest(4) == 32 * 1024);
  CHECK(widest(16) == 64 * 1024);
}

TEST_CASE("64K columns fit with tiles, and not without, however the memory is cut") {
  const auto fits = [](std::int64_t number) {
    return predicted(kOne, with(kFetched, {"model.hidden=65536", "model.layers=1", "model.heads=128",
                                           "batch={global: 1, micro: 1}", "training.recompute=full",
                                           "training.offload={optimizer: nvme, gradients: nvme, parameters: nvme}",
                                           tiles(number)}))
        .summary.fits;
  };
  CHECK(fits(16) == true);
  CHECK(fits(1) == false);
}

TEST_CASE("tiles of operators that stay whole are refused") {
  const auto refused = [](const Sets& sets, const char* why) {
    CAPTURE(std::string(why));
    const auto said = refusal(kOne, with(sets, {tiles(2)}));
    CAPTURE(said);
    CHECK(says(said, why));
  };
  refused({"parallelism.zero=2"}, "set parallelism.zero to 3, or training.offload.parameters to host");
  refused({"parallelism.zero=0"}, "set parallelism.zero to 3, or training.offload.parameters to host");
  refused({"cluster.gpus=1", "parallelism={data: 1}", "batch.global=2"}, "training.offload.parameters to host");
  refused({"training.optimizer=lomo", "batch.global=16", "batch.micro=1"}, "whole tensors, not tiles");
  refused(
      {"framework={use: titan-2024, async_tensor: true}", "parallelism={data: 8, tensor: 2, zero: 3, sequence: true}"},
      "'framework.async_tensor'");
  refused({"framework=titan-2024", "training.recompute=selective"}, "which tiles change");
  refused({"framework=native", "training.precision=fp32"}, "run an operator as a whole");
  CHECK(says(refusal(kOne, {tiles(0)}), "tiles"));
  CHECK(says(refusal(kOne, {tiles(257)}), "tiles"));
}
