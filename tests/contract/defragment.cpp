// Checkpoints and gradients in memory that is allocated once (ZeRO-R Md, arXiv 1910.02054, section 6.3): memory
// reserved beyond what is allocated, with and without it; the cost of the copies; what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const Sets kDefragment{"training.defragment=true"};

double gap(const answer::Result& p) { return *p.summary.peak.reserved - p.summary.peak.allocated; }
// A trillion-parameter model's layers, whose checkpoints stay on a GPU that has room for all of them.
answer::Result wide(std::int64_t layers, const Sets& more) {
  return predicted_file(
      "gpt-1t-infinity-512xv100.yaml",
      with({"training.offload.activations=device", "cluster.gpu.memory=1000GB", fmt::format("model.layers={}", layers)},
           more));
}
const std::string kSmall = R"(version: 1
model: {family: gpt, layers: 6, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 1024, tie_embeddings: false}
cluster: {use: dgx2-v100-32g, gpus: 8}
parallelism: {data: 8}
batch: {global: 16, micro: 2}
training: {precision: fp16, recompute: full, attention: unfused}
framework: megatron-2021
)";

}  // namespace

TEST_CASE("every checkpoint between short-lived tensors leaves gaps; in memory of their own they leave none") {
  double gaps[2], apart[2];
  for (const int more : {0, 1}) {
    const auto mixed = wide(32 << more, {}), own = wide(32 << more, kDefragment);
    gaps[more] = gap(mixed), apart[more] = gap(own);
    CHECK(apart[more] < gaps[more]);
    CHECK(*own.summary.peak.reserved < *mixed.summary.peak.reserved);
    CHECK(own.summary.iteration > mixed.summary.iteration);
    MESSAGE(fmt::format("{} layers: reserved {:.1f} GB, of which {:.1f} in gaps; copied {:.1f} and {:.1f}", 32 << more,
                        *mixed.summary.peak.reserved * 1e-9, gaps[more] * 1e-9, *own.summary.peak.reserved * 1e-9,
                        apart[more] * 1e-9));
  }
  CHECK(gaps[1] - gaps[0] > 3e9);  // with the checkpoints
  CHECK(std::abs(apart[1] - apart[0]) < 1e8);
}

TEST_CASE("a GPU that is nearly full: the allocator gives back what it caches again and again, or never") {
  const auto at = [](const Sets& more) {
    return wide(128, with({"cluster.gpu.memory=80GiB"}, more)).summary.ranks.front().allocator_retries;
  };
  CHECK(at({}) > 10);
  CHECK(at(kDefragment) == 0);
}

TEST_CASE("where nothing was fragmented nothing changes but a copy of each checkpoint") {
  const Sets full{"training.recompute=full", "batch.global=256"};
  const auto mixed = predicted_file("gpt3-175b-1024xa100.yaml", full),
             own = predicted_file("gpt3-175b-1024xa100.yaml", with(full, kDefragment));
  CHECK(*own.summary.peak.reserved == doctest::Approx(*mixed.summary.peak.reserved).epsilon(.01));
  CHECK(own.summary.peak.allocated == doctest::Approx(mixed.summary.peak.allocated).epsilon(.01));
  CHECK(own.summary.iteration > mixed.summary.iteration);
  CHECK(to_seconds(own.summary.iteration) < 1.01 * to_seconds(mixed.summary.iteration));
}

TEST_CASE("the same in every detail, and with every form of the backward") {
  for (const char* zero : {"0", "2", "3"})
    for (const char* more : {"simulate.detail=layer", "simulate.detail=operator"}) {
      const Sets sets = with(kDefragment, {std::string("parallelism.zero=") + zero});
      const auto coarse = predicted(kSmall, sets), fine = predicted(kSmall, with(sets, {more}));
      CHECK(coarse.timeline.makespan() == fine.timeline.makespan());
      CHECK(fine.summary.peak.allocated == doctest::Approx(coarse.summary.peak.allocated).epsilon(.02));
      if (std::string(zero) == "0") CHECK(*coarse.summary.peak.reserved == *fine.summary.peak.reserved);
    }
  const Sets split{"parallelism={pipeline: 2, data: 4}", "schedule=zb-h1", "batch.global=64"};
  CHECK(predicted(kSmall, with(split, kDefragment)).summary.iteration > predicted(kSmall, split).summary.iteration);
  const Sets tiled{"parallelism.zero=3", "training.offload.tiles=4"};
  CHECK(predicted(kSmall, with(tiled, kDefragment)).summary.iteration > predicted(kSmall, tiled).summary.iteration);
}

TEST_CASE("what is cut over the tensor group is a copy already, which costs nothing more") {
  const Sets cut{"parallelism={tensor: 4, data: 2}", "training.partition_activations=device"};
  CHECK(predicted(kSmall, with(cut, kDefragment)).summary.iteration == predicted(kSmall, cut).summary.iteration);
}

TEST_CASE("where nothing would be copied it is refused") {
  const auto refused = [](const Sets& sets, const char* why) {
    CAPTURE(std::string(why));
    const auto said = refusal(kSmall, with(sets, kDefragment));
    CAPTURE(said);
    CHECK(says(said, why));
  };
  refused({"training.recompute=none"}, "set training.recompute to full");
  refused({"training.recompute=none", "parallelism.zero=1"}, "set training.recompute to full");
  refused({"training.offload={activations: host}"}, "set training.recompute to full");
  refused({"training.allocator=exact"}, "nothing is fragmented");
  refused({"framework=native", "training.precision=fp32"}, "all their memory is contiguous");
}
