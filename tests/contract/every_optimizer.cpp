// Every optimizer of the house keeps what it says, and trains what one rank trains; Muon multiplies whole matrices that
// ZeRO deals to owners.
#include <doctest/doctest.h>

#include "answer/estimate.hpp"
#include "models/registry.hpp"
#include "models/traffic.hpp"
#include "performing.hpp"

using namespace rehearsal;

namespace {

// Without its products.
models::Optimizer muon_that_only_keeps() {
  auto muon = models::optimizer("muon");
  muon.on_matrices = nullptr;
  return muon;
}

answer::Result stepping(const models::Optimizer& optimizer, const Sets& sets) {
  auto scenario = scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", sets);
  scenario.concrete->training.optimizer = &optimizer;
  return answer::predict(scenario);
}

double states(const answer::Result& result) {
  return double(
      result.summary.ranks.front().memory[static_cast<std::size_t>(graph::MemoryCategory::optimizer)].count());
}

}  // namespace

TEST_CASE("every optimizer says what it is, and what it does inside the backward") {
  CHECK(models::optimizers().names().size() >= 4);
  for (const auto& [name, optimizer] : models::optimizers()) {
    CAPTURE(name);
    CHECK(optimizer.name == name);
    CHECK_FALSE(optimizer.summary.empty());
    CHECK((optimizer.update && optimizer.take_norm) == optimizer.in_backward);
    if (optimizer.serially) CHECK(models::optimizers().find(optimizer.serially));
  }
}

TEST_CASE("every optimizer trains what one rank trains, in the memory that was predicted") {
  for (const auto& [name, optimizer] : models::optimizers()) {
    if (!optimizer.kernels) continue;
    for (const char* precision : {"fp32", "bf16"}) {
      CAPTURE(name);
      CAPTURE(precision);
      check_trains(kGpt, with(kSmall, {"parallelism={pipeline: 2, data: 2}", "model.tie_embeddings=false",
                                       "batch={global: 4, micro: 2}", fmt::format("training.optimizer={}", name),
                                       fmt::format("training.precision={}", precision)}));
    }
  }
}

TEST_CASE("Muon: what it keeps, what it multiplies, whom it asks") {
  const Sets one{"parallelism={tensor: 8}", "model.layers=4", "batch={global: 4, micro: 1}"};
  const Sets eight{"parallelism={data: 8, zero: 1}", "model.layers=4", "batch={global: 16, micro: 1}",
                   "simulate.contention=off"};
  const auto& is = models::optimizer("muon");
  const auto keeps = muon_that_only_keeps();
  const auto adamw = [](const Sets& sets) { return stepping(models::default_optimizer(), sets); };
  // Of Llama 3 8B: four layers of q and out 4096 x 4096, k and v 4096 x 1024, three of 4096 x 14336, over 8 GPUs.
  const double matrices = 4 * (2 * 4096. * 4096 + 2 * 4096. * 1024 + 3 * 4096. * 14336);
  for (const auto& sets : {one, eight}) CHECK(states(adamw(sets)) - states(stepping(is, sets)) == 4 * matrices / 8);

  const auto plain = stepping(keeps, eight), whole = stepping(is, eight);
  const auto works = whole.graph().works();
  Time longer;
  std::size_t products = 0, exchanges = 0;
  const auto& program = whole.graph().program_of(whole.graph().ranks().front());
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto& work = works[program.work[i].index()];
    if (program.coordinates[i].pass != graph::Pass::optimizer || std::get_if<graph::OptimizerStep>(&work)) continue;
    longer += whole.lowered->durations[program.work[i].index()];
    if (const auto* sum = std::get_if<graph::Sequence>(&work)) products += sum->items.front().count;
    exchanges += std::get_if<graph::Collective>(&work) ? 1 : 0;
  }
  // By shape, dealt to 8: 8 of q and out, 8 of k and v, 12 of the rest; three products each, five times.
  CHECK(products == 3 * 5 * (1 + 1 + 2));
  CHECK(exchanges == 2);
  CHECK(longer > Time{});
  CHECK(whole.timeline.makespan() - plain.timeline.makespan() == longer);
  CHECK(answer::estimate(whole.scenario()).iteration == whole.timeline.makespan());
}

TEST_CASE("what steps on whole matrices is refused where they are not") {
  const auto& is = models::optimizer("muon");
  const auto why = [&](const Sets& sets) -> std::string {
    try {
      stepping(is, sets);
      return "";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(says(why({"training.offload={optimizer: host}"}), "leave training.offload out"));
  CHECK(says(why({"parallelism={data: 8}", "data_parallel={kind: parameter-server, servers: 2}"}), "all-reduce"));
  CHECK(says(why({"framework=native", "training.precision=fp32",
                  "model={family: gpt, layers: 2, hidden: 64, heads: 4, "
                  "vocabulary: 100}",
                  "batch={global: 8, micro: 1, sequence: 16}", "parallelism={tensor: 2, data: 4}"}),
             "each tensor rank has a slice"));
}
