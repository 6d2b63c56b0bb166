// LOMO with frameworks (arXiv 2306.09782): gradients are not kept, there are no states, and every tensor is updated
// once; sharded over replicas by ZeRO-3. And its refused combinations.
#include <doctest/doctest.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const std::string kOne = R"(version: 1
model: llama2-7b
cluster: {use: dgx-a100-80g, gpus: 1}
batch: {global: 8, micro: 8, sequence: 512}
training: {precision: fp16, recompute: full, attention: flash, optimizer: lomo}
framework: fsdp-2023
)";

double of(const answer::Result& prediction, graph::MemoryCategory category) {
  return held(prediction.summary.ranks.front(), category);
}
answer::Result on_eight(Sets sets) { return predicted_file("llama-65b-lomo-8xrtx3090.yaml", sets); }

}  // namespace

TEST_CASE("gradients and states are not there: 2 bytes of a parameter are, and 14 less than with AdamW") {
  const auto lomo = predicted(kOne, {}), adamw = predicted(kOne, {"training.optimizer=adamw"});
  const double parameters = 6738415616.;  // of Llama 2 7B
  CHECK(of(lomo, graph::MemoryCategory::parameters) == 2 * parameters);
  CHECK(of(lomo, graph::MemoryCategory::gradients) == 0);
  CHECK(of(lomo, graph::MemoryCategory::optimizer) == 0);
  CHECK(of(adamw, graph::MemoryCategory::gradients) == 2 * parameters);
  CHECK(of(adamw, graph::MemoryCategory::optimizer) == 12 * parameters);
  // The rest is two gradients of the widest neighbours, their copies in fp32 and a batch of 4,096 tokens.
  CHECK(lomo.summary.peak.allocated - 2 * parameters < 3. * (1 << 30));
}

TEST_CASE("AdaLOMO keeps rows and columns, whole on every replica, and moves three times as much") {
  const auto lomo = predicted(kOne, {}), ada = predicted(kOne, {"training.optimizer=adalomo"});
  // Of Llama 2 7B: 32 layers of 4 squares of 4096, three matrices of 4096 x 11008 and two norms; both ends, and a norm.
  const double moment = 4. * (32 * (4 * 8192 + 3 * 15104 + 2 * 4096) + 2 * (32000 + 4096) + 4096);
  CHECK(of(ada, graph::MemoryCategory::optimizer) == moment);
  const std::string eight = "cluster.gpus=8";
  const Sets sharded{eight, "parallelism={data: 8, zero: 3}", "batch.micro=1", "training.optimizer=adalomo"};
  CHECK(of(predicted(kOne, sharded), graph::MemoryCategory::optimizer) == moment);
  const double bandwidth = lomo.lowered->scenario.concrete->cluster.gpu.sustained_memory_bandwidth.value();
  CHECK(to_seconds(ada.timeline.makespan()) - to_seconds(lomo.timeline.makespan()) ==
        doctest::Approx((94 - 30) * 6738415616. / bandwidth).epsilon(.05));
}

TEST_CASE("clipping by the norm runs the backward twice on one graph, or by tensor once") {
  // A backward is two forwards: 5 of 3 passes, or 7 of 4 where each backward computes the forward again.
  const auto clipped = "training.gradient_clipping=norm";
  for (const auto& [recompute, passes] : {std::pair("none", 5. / 3), std::pair("full", 7. / 4)}) {
    CAPTURE(recompute);
    const auto set = std::string("training.recompute=") + recompute;
    const auto plain = predicted(kOne, {set}), norm = predicted(kOne, {set, clipped});
    CHECK(norm.lowered->hardware_flops.value() ==
          doctest::Approx(passes * plain.lowered->hardware_flops.value()).epsilon(.01));
    // The norm neither reads nor writes parameters: 10 of 30 bytes, and 8 more to scale.
    const double bandwidth = plain.lowered->scenario.concrete->cluster.gpu.sustained_memory_bandwidth.value();
    const auto others = [&](const answer::Result& p, double bytes) {
      return to_seconds(p.timeline.makespan()) - bytes * 6738415616. / bandwidth;
    };
    CHECK(others(norm, 10 + 38) / others(plain, 30) == doctest::Approx(passes).epsilon(.02));
    CHECK(norm.summary.peak.allocated == plain.summary.peak.allocated);
    const auto grouped = predicted(kOne, {set, "training.gradient_clipping=grouped"});
    CHECK(to_seconds(grouped.timeline.makespan()) - to_seconds(plain.timeline.makespan()) ==
          doctest::Approx(12 * 6738415616. / bandwidth).epsilon(.05));
  }
}

TEST_CASE("with ZeRO-3 a norm takes another forward, while the graph of the first still stands") {
  const Sets sharded{"cluster.gpus=8", "parallelism={data: 8, zero: 3}", "batch.micro=1", "batch.sequence=4096",
                     "training.recompute=none"};
  const auto plain = predicted(kOne, sharded),
             norm = predicted(kOne, with(sharded, {"training.gradient_clipping=norm"}));
  CHECK(norm.lowered->data_volume->form() == "8 Psi");
  CHECK(norm.lowered->hardware_flops.value() ==
        doctest::Approx(2 * plain.lowered->hardware_flops.value()).epsilon(1e-9));
  // At the end of the second forward both are held; the peak of the plain step is in its backward.
  const double kept = norm.lowered->problem.activation.front();
  CHECK(norm.summary.peak.allocated > plain.summary.peak.allocated + .9 * kept);
  CHECK(norm.summary.peak.allocated < plain.summary.peak.allocated + kept);
}

TEST_CASE("65 B parameters on eight GPUs of 24 GB: with LOMO, and with nothing that keeps gradients") {
  const auto lomo = on_eight({});
  CHECK(lomo.summary.fits == true);
  CHECK(on_eight({"training.optimizer=sgd"}).summary.fits == false);
  CHECK(on_eight({"training.optimizer=adamw"}).summary.fits == false);
  CHECK(on_eight({"training.recompute=none", "batch={global: 64, micro: 8}"}).summary.fits == false);
  // Two gathers of all parameters and one all-reduce of all gradients, where ZeRO-3 reduce-scatters: 4 Psi instead of
  // 3.
  REQUIRE(lomo.lowered->data_volume);
  CHECK(lomo.lowered->data_volume->form() == "4 Psi");
  CHECK(on_eight({"training.optimizer=sgd"}).lowered->data_volume->form() == "3 Psi");
}

TEST_CASE("an update costs what it moves, wherever it is made") {
  // Without updates the steps of LOMO and SGD are equal; LOMO's update moves 30 bytes per parameter.
  const auto lomo = predicted(kOne, {}), sgd = predicted(kOne, {"training.optimizer=sgd"});
  const auto optimizer = static_cast<std::size_t>(graph::Category::optimizer);
  CHECK(lomo.summary.breakdown[optimizer] == Time());
  const double others = to_seconds(sgd.timeline.makespan() - sgd.summary.breakdown[optimizer]);
  const double moving =
      30 * 6738415616. / lomo.lowered->scenario.concrete->cluster.gpu.sustained_memory_bandwidth.value();
  CHECK(to_seconds(lomo.timeline.makespan()) - others == doctest::Approx(moving).epsilon(.05));
}

TEST_CASE("what LOMO cannot be is refused with the way out") {
  CHECK(says(refusal(kOne, {"batch.micro=1"}), "it cannot accumulate 8 micro-batches; set batch.micro"));
  CHECK(says(refusal(kOne, {"cluster.gpus=2", "batch.micro=4"}), "set parallelism.zero to 3"));
  CHECK(says(refusal(kOne, {"parallelism.zero=3"}), "nothing that zero 3 could shard over one GPU"));
  CHECK(says(refusal(kOne, {"model.tie_embeddings=true"}), "set model.tie_embeddings to false"));
  CHECK(says(refusal(kOne, {"training.gradient_clipping=norm", "parallelism.pipeline=2", "cluster.gpus=2"}),
             "set parallelism.pipeline to 1"));
  CHECK(says(refusal(kOne, {"training.gradient_clipping=norm", "schedule=zb-h1"}), "set schedule to 1f1b"));
  CHECK(says(refusal(kOne, {"training.gradient_clipping=none", "training.optimizer=adalomo"}), "set it to grouped"));
  CHECK(says(refusal(kOne, {"training.gradient_clipping=norm", "training.optimizer=adamw"}),
             "set training.optimizer to lomo"));
  CHECK(says(refusal(kOne, {"schedule=seq1f1b"}), "a piece of a sequence gives a part of it only"));
}
