// Every optimizer of the house keeps what it says, and trains what one rank trains. And a new one is a file: here is
// Muon (Jordan et al. 2024; Liu et al., arXiv 2502.16982), written as one that the program has never heard of. Matrices
// of layers keep a momentum alone and step by its orthogonal factor, in five iterations of three products; ZeRO deals
// them to owners, who hand out what they have made. Tables, the head and vectors take AdamW's step.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "answer/estimate.hpp"
#include "models/registry.hpp"
#include "models/traffic.hpp"
#include "performing.hpp"

using namespace rehearsal;
using models::StepPiece;

namespace {

bool by_adamw(const Tensor& tensor) {
  return !is_of_layer(tensor.kind) || models::matrices_of(tensor).front().rows == 1;
}

double second_moments(std::span<const Tensor> tensors) {
  double bytes = 0;
  for (const auto& tensor : tensors)
    if (by_adamw(tensor)) bytes += 4 * double(tensor.elements());
  return bytes;
}

std::vector<StepPiece> newton_schulz(const models::StepOf& step) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> matrices;  // by shape: short side, long side
  double elements = 0;
  for (const auto* part : step.parts)
    for (const auto& segment : part->segments)
      for (const auto& tensor : segment.tensors)
        for (const auto& m : models::matrices_of(tensor))
          if (!by_adamw(tensor)) {
            ++matrices[std::minmax(m.rows, m.columns)];
            elements += double(m.rows) * double(m.columns);
          }
  std::vector<StepPiece> pieces;
  const auto exchange = [&](CollectiveKind kind) {
    if (step.shards > 1) pieces.push_back({StepPiece::Exchange{kind, bytes(2 * elements)}});
  };
  exchange(CollectiveKind::all_to_all);  // momentum to owners
  for (const auto& [shape, all] : matrices) {
    const auto [m, n] = shape;
    const auto count = static_cast<std::uint32_t>(5 * ((all + step.shards - 1) / step.shards));
    for (const auto& gemm : {Gemm{m, m, n}, Gemm{m, m, m}, Gemm{m, n, m}}) pieces.push_back({gemm, count});
  }
  exchange(CollectiveKind::all_gather);
  return pieces;
}

models::Optimizer muon(bool multiplies = true) {
  return {.name = "muon",
          .summary = "momentum, made orthogonal",
          .moments = 1,
          .also_keeps = second_moments,
          .shards_also = true,
          .moves_more = [](const models::Training&) { return -8.; },
          .on_matrices = multiplies ? newton_schulz : nullptr};
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

TEST_CASE("an optimizer of a file of its own: what it keeps, what it multiplies, whom it asks") {
  const Sets one{"parallelism={tensor: 8}", "model.layers=4", "batch={global: 4, micro: 1}"};
  const Sets eight{"parallelism={data: 8, zero: 1}", "model.layers=4", "batch={global: 16, micro: 1}",
                   "simulate.contention=off"};
  const auto is = muon(), keeps = muon(false);
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
  const auto is = muon();
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
  CHECK(says(why({"framework=native", "model={family: gpt, layers: 2, hidden: 64, heads: 4, vocabulary: 100}",
                  "batch={global: 8, micro: 1, sequence: 16}", "parallelism={data: 8}"}),
             "no kernels"));
}
