// Loss scaling of fp16 (arXiv 1710.03740): the cost of checking for infinities, that a step that overflows updates
// nothing, and that samples per second count only steps that train.
#include <doctest/doctest.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const std::string kEight = R"(version: 1
model: gpt-7.5b
cluster: {use: dgx-a100-80g, nodes: 1}
parallelism: {data: 8, zero: 1}
batch: {global: 64, micro: 1}
training: {precision: fp16, recompute: full}
framework: megatron-2022
)";

Time spent(const answer::Result& prediction, graph::Pass pass) {
  Time sum;
  const auto& graph = prediction.graph();
  const auto& program = graph.program_of(graph.ranks().front());
  for (std::size_t i = 0; i < program.size(); i++)
    if (program.coordinates[i].pass == pass) sum += prediction.lowered->durations[program.work[i].index()];
  return sum;
}

}  // namespace

TEST_CASE("gradients are looked through once more, where the optimizer's bytes do not hold it") {
  const auto without = predicted(kEight, {}), with_it = predicted(kEight, {"training.loss_scaling=dynamic"});
  const double own = models::parameters(without.scenario().concrete->model) / 8;
  const double bandwidth = without.scenario().concrete->cluster.gpu.sustained_memory_bandwidth.value();
  const double longer = to_seconds(with_it.timeline.makespan() - without.timeline.makespan());
  CHECK(longer == doctest::Approx(8 * own / bandwidth).epsilon(.05));
  CHECK(!without.summary.useful);
  const auto old = predicted(kEight, {"framework=megatron-2021"});
  const auto old_scaled = predicted(kEight, {"framework=megatron-2021", "training.loss_scaling=dynamic"});
  CHECK(old_scaled.timeline.makespan() == old.timeline.makespan());
  CHECK(old_scaled.summary.useful);
}

TEST_CASE("a step that overflows neither updates nor gathers, and trains nothing") {
  const auto rare = predicted(kEight, {"training.loss_scaling=dynamic"});
  const auto often = predicted(kEight, {"training.loss_scaling.overflow_rate=0.2"});
  REQUIRE(rare.summary.useful);
  REQUIRE(often.summary.useful);
  // Twice after every thousand steps that went well.
  CHECK(rare.summary.useful->overflow_rate == 2. / 1002);
  CHECK(often.timeline.makespan() == rare.timeline.makespan());
  const auto never = predicted(kEight, {});  // whose optimizer looks for nothing
  CHECK(often.summary.useful->skipped ==
        often.timeline.makespan() - spent(never, graph::Pass::optimizer) - spent(never, graph::Pass::parameter_gather));
  // Of five steps one overflows: a quarter of it to each of the four others.
  const double step = to_seconds(often.timeline.makespan()) + .25 * to_seconds(often.summary.useful->skipped);
  CHECK(*often.summary.samples_per_s == doctest::Approx(64 / step).epsilon(1e-9));
  CHECK(*often.summary.model_tflops_per_gpu ==
        doctest::Approx(often.lowered->model_flops.value() / 8 / step * 1e-12).epsilon(1e-9));
  // The skipped step executes what the others do.
  CHECK(*often.summary.hardware_tflops_per_gpu ==
        doctest::Approx(1.25 * often.lowered->hardware_flops.value() / 8 / step * 1e-12).epsilon(1e-9));
}

TEST_CASE("with LOMO an overflow is known after the first backward") {
  const Sets lomo{"cluster={use: dgx-a100-80g, gpus: 1}", "parallelism={}",
                  "batch={global: 4, micro: 4}",          "training.optimizer=lomo",
                  "model.tie_embeddings=false",           "framework=fsdp-2023",
                  "training.gradient_clipping=norm"};
  const auto scaled = predicted(kEight, with(lomo, {"training.loss_scaling.overflow_rate=0.5"}));
  REQUIRE(scaled.summary.useful);
  const Time forward = spent(scaled, graph::Pass::forward), norms = spent(scaled, graph::Pass::norm_backward);
  CHECK(scaled.summary.useful->skipped == forward + norms);
  // Cast and sum of every gradient, then divided: 18 bytes, in both backwards.
  const auto plain = predicted(kEight, lomo);
  const double parameters = models::parameters(plain.scenario().concrete->model);
  const double bandwidth = plain.scenario().concrete->cluster.gpu.sustained_memory_bandwidth.value();
  CHECK(to_seconds(scaled.timeline.makespan() - plain.timeline.makespan()) ==
        doctest::Approx(2 * 18 * parameters / bandwidth).epsilon(.05));
  const Sets rarely = with(lomo, {"training.loss_scaling=dynamic"});
  CHECK(predicted(kEight, rarely).summary.useful->overflow_rate == 1. / 1001);
}

TEST_CASE("settings that loss scaling does not go with are refused") {
  const std::string dynamic = "training.loss_scaling=dynamic";
  CHECK(says(refusal(kEight, {dynamic, "training.precision=bf16"}), "'loss_scaling' is for fp16"));
  CHECK(says(refusal(kEight, {dynamic, "training.optimizer_sync=post-validation"}), "'rollback_probability'"));
  CHECK(says(refusal(kEight, {"training.loss_scaling={mode: none, overflow_rate: 0.1}"}), "leave 'mode' out"));
  CHECK(says(refusal(kEight, {"training.loss_scaling.overflow_rate=1"}), "from 0 to 0.99"));
  const Sets one{"cluster={use: dgx-a100-80g, gpus: 1}", "parallelism={}", "batch={global: 4, micro: 4}",
                 "model.tie_embeddings=false", dynamic};
  CHECK(says(refusal(kEight, with(one, {"training.optimizer=lomo"})), "set gradient_clipping to norm"));
  CHECK(says(refusal(kEight, with(one, {"training.optimizer=adalomo"})), "leave loss_scaling out"));
}
