// States that some of the replicas share (HSDP: Zhao et al., arXiv 2304.11277, section 3.2.2), and copies of them,
// train what one rank trains, in the memory that was predicted; what is left out of them is found out.
#include <set>

#include "performing.hpp"

namespace rehearsal {
namespace {

std::int64_t resident(const Sets& sets, graph::MemoryCategory category) {
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto graph = answer::prepare(what.scenario).graph;
  const auto& program = graph.program_of(graph.ranks()[0]);
  std::int64_t bytes = 0;
  for (std::size_t b = 0; b < program.residents; ++b)
    if (program.buffers[b].category == category) bytes += program.buffers[b].size.count();
  return bytes;
}

}  // namespace

TEST_CASE("shards of some replicas and their copies train what one rank trains") {
  for (const Sets& network : {kSmall, kSmallLlama})
    for (const char* optimizer : {"sgd", "adamw"})
      for (const char* layout : {"{data: 4, shard: 2", "{pipeline: 2, data: 4, shard: 2", "{data: 6, shard: 3",
                                 "{tensor: 2, data: 4, shard: 2, sequence: true", "{context: 2, data: 4, shard: 2",
                                 "{context: 2, data: 2, shard: 1"})
        for (const int zero : {1, 2, 3}) {
          CAPTURE(layout);
          CAPTURE(zero);
          CAPTURE(optimizer);
          const bool six = layout == std::string("{data: 6, shard: 3");
          check_trains(kGpt, with(network, {fmt::format("parallelism={}, zero: {}}}", layout, zero),
                                            six ? "batch.global=12" : "batch.global=8",
                                            fmt::format("training.optimizer={}", optimizer)}));
        }
  // Shards are neighbours among the replicas, wherever those are; a table that both ends of the pipeline have.
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    check_trains(kGpt, with(kSmall, {fmt::format("parallelism={{tensor: 2, data: 4, shard: 2, zero: {}}}", zero),
                                     "placement=[data, tensor, pipeline, context, expert]", "batch.global=8"}));
    check_trains(kGpt, with(kSmall, {fmt::format("parallelism={{pipeline: 2, data: 4, shard: 2, zero: {}}}", zero),
                                     "model.tie_embeddings=true", "batch.global=8", "training.precision=bf16",
                                     "training.optimizer=adamw"}));
  }
}

TEST_CASE("a rank keeps the states of a shard, of as many ranks as share them") {
  for (const int zero : {1, 2, 3}) {
    const auto kept = [&](const char* layout, graph::MemoryCategory category) {
      return resident(with(kSmallLlama, {fmt::format("parallelism={}, zero: {}}}", layout, zero), "batch.global=8",
                                         "training.optimizer=adamw"}),
                      category);
    };
    for (const auto category :
         {graph::MemoryCategory::optimizer, graph::MemoryCategory::gradients, graph::MemoryCategory::parameters})
      CHECK(kept("{data: 4, shard: 2", category) == kept("{data: 2", category));
    CHECK(kept("{data: 4, shard: 2", graph::MemoryCategory::optimizer) ==
          2 * kept("{data: 4", graph::MemoryCategory::optimizer));
  }
}

TEST_CASE("a sum over shards or copies that is left out is found out") {
  for (const int zero : {1, 2, 3}) {
    const Sets sets = with(kSmall, {fmt::format("parallelism={{data: 4, shard: 2, zero: {}}}", zero), "batch.global=8",
                                    "training.optimizer=adamw"});
    const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
    const auto prepared = answer::prepare(what.scenario);
    const auto& graph = prepared.graph;
    const auto& program = graph.program_of(graph.ranks()[0]);
    std::set<CollectiveKind> met;
    for (std::size_t t = 0; t < program.size(); ++t) {
      const auto* collective = std::get_if<graph::Collective>(&graph.work(program.work[t]));
      const bool reduces = program.coordinates[t].pass == graph::Pass::gradient_reduce;
      if (!collective || !reduces || !met.insert(collective->kind).second) continue;
      CAPTURE(name(collective->kind));
      CAPTURE(zero);
      backend::FaultInjection fault_injection;
      fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool {
        return step == 0 && task == LocalTask(t);
      };
      CHECK(!train(kGpt, sets, fault_injection).verified.ok);
    }
    CHECK(met == std::set{CollectiveKind::reduce_scatter, CollectiveKind::all_reduce});
  }
}

TEST_CASE("copies of shards that own kernels do not know are refused by name") {
  const auto refusal = [](const Sets& network, std::initializer_list<std::string> sets) {
    return [=] { answer::predict(scenario::load(kGpt, with(network, sets))); };
  };
  const char* shards = "parallelism={data: 4, shard: 2, zero: 1}";
  CHECK_THROWS_WITH_AS(refusal(kSmallMoe, {shards, "batch.global=8"})(),
                       doctest::Contains("experts have other replicas"), UserError);
  CHECK_THROWS_WITH_AS(refusal(kSmall, {"parallelism={data: 4, shard: 1, zero: 1}", "batch.global=8"})(),
                       doctest::Contains("set parallelism.zero to 0"), UserError);
  CHECK_THROWS_WITH_AS(
      refusal(kSmall, {shards, "batch.global=8", "training.optimizer=adamw", "training.offload={optimizer: host}"})(),
      doctest::Contains("do not support copies of offloaded states"), UserError);
  CHECK_NOTHROW(
      explore::load_performable(kGpt, with(kSmall, {shards, "batch.global=8"}), backend::Compute::real, "cuda"));
}

}  // namespace rehearsal
