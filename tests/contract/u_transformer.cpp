// A network with long skip connections (models/README.md, section 9) trains what one rank trains, in the predicted
// memory; its simulation is the same at every detail; and a missing skip connection is detected.
#include <map>

#include "../nightly.hpp"
#include "performing.hpp"
#include "predicted.hpp"

namespace rehearsal {
namespace {

Sets small(std::int64_t layers) {
  return {
      fmt::format("model={{family: u-transformer, layers: {}, hidden: 32, heads: 4, vocabulary: 101, sequence: 16}}",
                  layers),
      "training.optimizer=sgd", "batch={global: 8, micro: 1}"};
}

// On one node of four GPUs of 16 GB, by a framework.
const std::string kSimulated =
    "version: 1\n"
    "model: {family: u-transformer, layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 512}\n"
    "cluster: p3-8xlarge\n"
    "parallelism: {tensor: 4}\n"
    "batch: {global: 16, micro: 4}\n"
    "training: {precision: fp16, attention: unfused}\n"
    "framework: megatron-2021\n";

}  // namespace

TEST_CASE("odd and even depths, cut in every way, train what one rank trains") {
  for (const std::int64_t layers : nightly() ? std::vector<std::int64_t>{1, 2, 5, 6} : std::vector<std::int64_t>{2, 5})
    for (const char* recompute : {"none", "full"})
      for (const char* precision : {"fp32", "bf16"}) {
        CAPTURE(layers);
        CAPTURE(recompute);
        CAPTURE(precision);
        // All layouts of one depth are compared with one serial run.
        for (const char* layout : {"{tensor: 2}", "{tensor: 2, sequence: true}", "{data: 2}", "{data: 2, zero: 1}",
                                   "{data: 2, zero: 2}", "{data: 2, zero: 3}", "{tensor: 2, data: 2, zero: 3}"}) {
          CAPTURE(layout);
          check_trains(kGpt, with(small(layers), {fmt::format("parallelism={}", layout),
                                                  fmt::format("training.recompute={}", recompute),
                                                  fmt::format("training.precision={}", precision)}));
        }
      }
}

TEST_CASE("other parallelism and offload work with skip connections") {
  for (const Sets& more : std::vector<Sets>{
           {"parallelism={tensor: 2}", "training.recompute=selective", "training.optimizer=adamw"},
           {"parallelism={context: 2}"},
           {"parallelism={context: 2}", "training.context=all-to-all", "training.recompute=full"},
           {"parallelism={data: 2}", "model.tie_embeddings=true"},
           {"parallelism={data: 2}", "training.optimizer=lomo", "batch.global=2"},
           {"parallelism={data: 2}", "training.optimizer=adalomo", "batch.global=2", "training.recompute=full"},
           {"parallelism={pipeline: 2, data: 2}", "schedule=zb-h1"},
           // Each direction has its own skips.
           {"parallelism={pipeline: 2}", "schedule=dualpipe"},
           {"parallelism={pipeline: 2}", "schedule=chimera", "training.recompute=full"},
           {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 2}"},
           {"parallelism={data: 2}", "training.recompute=full", "training.offload.activations=host"},
           {"parallelism={tensor: 2}", "training.recompute=full", "training.partition_activations=device"}}) {
    CAPTURE(more.front());
    CAPTURE(more.back());
    auto sets = small(6);
    sets.insert(sets.end(), more.begin(), more.end());
    check_trains(kGpt, sets);
  }
}

TEST_CASE("a way of a skip connection that is left out is found") {
  const auto sets = with(small(4), {"parallelism={data: 2}"});
  const auto question =
      answer::prepare(explore::load_performable(kGpt, sets, backend::Compute::real, "loopback").scenario);
  const auto& graph = question.graph;
  const auto& program = graph.program_of(graph.ranks()[0]);
  const auto of = [&](KernelKind kind, graph::Pass pass, std::uint16_t layer) {
    std::vector<LocalTask> found;
    for (std::size_t t = 0; t < program.size(); ++t) {
      const auto* kernel = std::get_if<Kernel>(&graph.work(program.work[t]));
      const auto& at = program.coordinates[t];
      if (kernel && kernel->kind == kind && at.pass == pass && at.layer == layer && at.microbatch == 0)
        found.emplace_back(t);
    }
    return found;
  };
  REQUIRE(train(kGpt, sets).verified.ok);
  const auto found_out = [&](const char* what, LocalTask left_out) {
    CAPTURE(what);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool { return step == 0 && task == left_out; };
    CHECK(!train(kGpt, sets, fault_injection).verified.ok);
  };
  for (const std::uint16_t layer : {0, 1}) {
    const auto mirror = static_cast<std::uint16_t>(3 - layer);
    CAPTURE(layer);
    // Two additions of a backward are those of the residual branches. The first is that of the skip's gradient.
    const auto sums = of(KernelKind::add, graph::Pass::backward, layer);
    REQUIRE(sums.size() == of(KernelKind::add, graph::Pass::backward, mirror).size() + 1);
    found_out("the sum of the gradients", sums.front());
    const auto taken = of(KernelKind::add, graph::Pass::forward, mirror);
    REQUIRE(taken.size() == 1);
    CHECK(of(KernelKind::add, graph::Pass::forward, layer).empty());
    found_out("the addition in the forward", taken.front());
  }
}

TEST_CASE("skips inside a stage: the same time and memory at every detail") {
  for (const Sets& sets : std::vector<Sets>{{},
                                            {"model.layers=7"},
                                            {"model.layers=2"},
                                            {"training.recompute=full"},
                                            {"training.recompute=selective"},
                                            {"training.recompute={mode: full, every: 2}"},
                                            {"training.attention=unfused"},
                                            {"cluster=dgx-h100", "training.attention=flash", "training.precision=bf16",
                                             "framework=titan-2024", "training.recompute=selective"},
                                            {"parallelism={tensor: 4, sequence: true}"},
                                            {"parallelism={data: 4}"},
                                            {"parallelism={pipeline: 4}"},
                                            {"model.tie_embeddings=true"}}) {
    if (!sets.empty()) CAPTURE(sets.back());
    const auto at = [&](const char* detail) {
      auto all = sets;
      all.push_back(fmt::format("simulate.detail={}", detail));
      return contract::predicted(kSimulated, all).summary;
    };
    const auto stage = at("stage");
    for (const char* detail : {"layer", "operator"}) {
      CAPTURE(detail);
      const auto fine = at(detail);
      CHECK(fine.iteration == stage.iteration);
      REQUIRE(fine.ranks.size() == stage.ranks.size());
      for (std::size_t r = 0; r < fine.ranks.size(); ++r) {
        CHECK(fine.ranks[r].peak.allocated == stage.ranks[r].peak.allocated);
        CHECK(fine.ranks[r].peak.reserved == stage.ranks[r].peak.reserved);
      }
    }
  }
}

TEST_CASE("a framework's skips share the tensor of a checkpoint, and are refused where that goes") {
  for (const auto& [key, set] : {std::pair("offload", "training.offload.activations=host"),
                                 std::pair("partition", "training.partition_activations=device"),
                                 std::pair("defragment", "training.defragment=true")}) {
    CAPTURE(key);
    const Sets sets{"training.recompute=full", set};
    CHECK(contract::refusal(kSimulated, sets).find("skip connections") != std::string::npos);
    CHECK(contract::refusal(kSimulated, with(sets, {"model.family=gpt"})).empty());
  }
}

TEST_CASE("both directions send their skips") {
  const auto sent = [](const char* family, const char* schedule) {
    const auto predicted = contract::predicted(
        kSimulated, {"parallelism={pipeline: 2}", "batch.global=32", fmt::format("model.family={}", family),
                     "model.tie_embeddings=false", fmt::format("schedule={}", schedule)});
    std::size_t messages = 0;
    for (const auto& rank : predicted.graph().ranks()) {
      const auto& program = predicted.graph().program_of(rank);
      for (std::size_t t = 0; t < program.size(); ++t)
        messages += std::holds_alternative<graph::Message>(predicted.graph().work(program.work[t]));
    }
    return messages;
  };
  // Of four skips each crosses, forward and back, as activations and gradients do: five messages for one.
  for (const char* schedule : {"1f1b", "dualpipe", "chimera"}) {
    CAPTURE(schedule);
    CHECK(sent("gpt", schedule) > 0);
    CHECK(sent("u-transformer", schedule) == 5 * sent("gpt", schedule));
  }
}

}  // namespace rehearsal
