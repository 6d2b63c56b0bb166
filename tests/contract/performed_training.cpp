// A schedule promises to train the network that one rank alone would train. Here every schedule does so for real; and
// runs broken on purpose are detected, because a check that passes must be able to fail.
#include <algorithm>
#include <set>

#include "../nightly.hpp"
#include "performed_schedules.hpp"
#include "performing.hpp"

namespace rehearsal {

TEST_CASE("every schedule trains what one rank trains, in the memory that was predicted") {
  std::set<std::string> trained;
  for (const std::string& schedule : schedule::registry().names())
    for (const int ranks : {2, 4})
      for (const int chunks : {1, 2}) {
        CAPTURE(schedule);
        CAPTURE(ranks);
        CAPTURE(chunks);
        // Schedules with old weights update the two copies of a tied table at different times, so they are refused.
        const bool stale = schedule::registry().at(schedule).updates != schedule::Updates::at_flush;
        try {
          const Sets& network = (ranks == 4) == (chunks == 1) ? kSmall : kSmallLlama;
          check_trains(kGpt, with(network, {fmt::format("parallelism={{pipeline: {}, chunks: {}}}", ranks, chunks),
                                            "model.layers=8", "batch.global=8", "schedule=" + schedule,
                                            fmt::format("model.tie_embeddings={}", stale ? "false" : "true")}));
          trained.insert(schedule);
        } catch (const UserError& error) {
          const std::string why = error.what();
          const bool chunks_do_not_fit = why.find("chunk") != std::string::npos;
          CHECK_MESSAGE(chunks_do_not_fit, why);
        }
      }
  CHECK(std::vector<std::string>(trained.begin(), trained.end()) == performed_schedules());
}

TEST_CASE("tensor parallelism, ZeRO, recomputation and optimizers train what one rank trains") {
  int number = 0;
  for (const char* layout : {"{tensor: 2}", "{tensor: 4}", "{data: 2}", "{tensor: 2, pipeline: 2, data: 2}"})
    for (const int zero : {0, 1, 2, 3})
      for (const char* optimizer : {"sgd", "adamw"})
        for (const char* recompute : {"none", "selective", "full"}) {
          // By day every fifth with replicas: all six pairs in turn, at least one at every level of ZeRO.
          if (!nightly() && std::string(layout).find("data") != std::string::npos && number++ % 5 != 0) continue;
          CAPTURE(layout);
          CAPTURE(zero);
          CAPTURE(recompute);
          CAPTURE(optimizer);
          if (zero > 0 && std::string(layout).find("data") == std::string::npos) continue;
          // Each family runs half of the cases, crosswise; two key-value heads cannot be split over four tensor ranks.
          const bool llama = (zero % 2 == 0) == (optimizer == std::string("sgd"));
          if (llama && std::string(layout) == "{tensor: 4}") continue;
          check_trains(kGpt, with(llama ? kSmallLlama : kSmall,
                                  {fmt::format("parallelism={}", layout), fmt::format("parallelism.zero={}", zero),
                                   fmt::format("training.recompute={}", recompute),
                                   fmt::format("training.optimizer={}", optimizer)}));
        }
  for (const char* layout : {"{pipeline: 2}", "{pipeline: 2, data: 2, tensor: 2}", "{data: 4}"})
    check_trains(kGpt, with(kSmall, {fmt::format("parallelism={}", layout), "training.optimizer=lomo",
                                     "model.tie_embeddings=false", "batch.global=4",
                                     layout == std::string("{data: 4}")       ? "batch.micro=1"
                                     : layout == std::string("{pipeline: 2}") ? "batch.micro=4"
                                                                              : "batch.micro=2"}));
  for (const auto& [layout, micro] : {std::pair("{pipeline: 2}", "4"), std::pair("{data: 4}", "1"),
                                      std::pair("{pipeline: 2, data: 2}", "2"), std::pair("{context: 2}", "4")})
    for (const char* precision : {"fp32", "bf16"})
      check_trains(kGpt, with(kSmallLlama, {fmt::format("parallelism={}", layout), "training.optimizer=adalomo",
                                            "training.recompute=full", fmt::format("training.precision={}", precision),
                                            "batch.global=4", fmt::format("batch.micro={}", micro)}));
  for (const char* layout : {"{data: 4}", "{data: 2, context: 2}"})
    for (const char* precision : {"fp32", "bf16"})
      check_trains(kGpt, with(kSmallLlama, {fmt::format("parallelism={}", layout), "training.optimizer=lomo",
                                            "training.gradient_clipping=norm", "batch.global=4",
                                            fmt::format("training.precision={}", precision),
                                            layout == std::string("{data: 4}") ? "batch.micro=1" : "batch.micro=2"}));
  for (const char* order : {"[pipeline, data, expert, context, tensor]", "[data, tensor, pipeline, context, expert]"}) {
    CAPTURE(order);
    for (const char* zero : {"0", "1", "3"})
      check_trains(kGpt, with(kSmall, {"parallelism={tensor: 2, pipeline: 2, data: 2}",
                                       std::string("parallelism.zero=") + zero, std::string("placement=") + order}));
    check_trains(kGpt, with(kSmall, {"parallelism={pipeline: 2, data: 2}", "schedule=dualpipe",
                                     std::string("placement=") + order}));
  }
  // Ranks p and P-1-p are replicas of each other: ZeRO shards over both directions.
  for (const char* schedule : {"dualpipe", "chimera"})
    for (const char* layout : {"{pipeline: 2, data: 2", "{pipeline: 4, data: 1", "{pipeline: 4, tensor: 2, data: 1"})
      for (const int zero : {1, 2, 3}) {
        CAPTURE(schedule);
        CAPTURE(layout);
        CAPTURE(zero);
        check_trains(kGpt, with(kSmall, {fmt::format("parallelism={}, zero: {}}}", layout, zero),
                                         "training.optimizer=adamw", std::string("schedule=") + schedule}));
      }
  for (const char* layout : {"{tensor: 2, pipeline: 2, data: 2, zero: 2}", "{pipeline: 4}"})
    check_trains(kMlp, {fmt::format("parallelism={}", layout), "model.layers=4", "model.hidden=32", "model.ffn=48",
                        "model.sequence=4"});
}

TEST_CASE("experts over several ranks train what one rank trains, in the memory that was predicted") {
  for (const Sets& layout : std::vector<Sets>{
           {"parallelism={data: 4}", "training.optimizer=adamw"},
           {"parallelism={data: 4, expert: 2}"},
           {"parallelism={data: 4, expert: 4}", "training.optimizer=adamw"},
           // Experts have fewer replicas than the rest, or none: their segments are sharded among those only.
           {"parallelism={data: 4, expert: 2, zero: 1}", "training.optimizer=adamw"},
           {"parallelism={data: 4, expert: 4, zero: 1}"},
           {"parallelism={data: 4, expert: 2, zero: 2}"},
           {"parallelism={data: 2, expert: 2, zero: 3}", "training.recompute=full"},
           {"parallelism={data: 4, expert: 2, zero: 3}", "placement=[pipeline, data, expert, context, tensor]"},
           {"parallelism={pipeline: 2, data: 4, expert: 2, zero: 1}", "training.recompute=full", "schedule=zb-h1"},
           {"parallelism={data: 4, expert: 4}", "model.shared_experts=0", "model.dense_layers=0",
            "model.experts_per_token=1"},
           // Slots are assigned per rank and micro-batch, as on one rank, so the same rows are dropped.
           {"parallelism={data: 4, expert: 2}", "experts.capacity=0.75"},
           {"parallelism={pipeline: 2, data: 2, expert: 2}", "experts.capacity=1", "training.recompute=selective"},
           {"parallelism={data: 4, expert: 2, zero: 1}", "training.precision=bf16"},
           {"parallelism={data: 2, expert: 2}", "training.optimizer=lomo", "batch.global=2"},
       }) {
    CAPTURE(layout.front());
    Sets sets = kSmallMoe;
    sets.insert(sets.end(), layout.begin(), layout.end());
    check_trains(kGpt, sets);
  }
  for (const char* schedule :
       {"gpipe", "1f1b", "zb-h1", "zb-1p", "interleaved-1f1b", "zb-v", "dualpipe", "dualpipev", "pipedream-2bw"}) {
    CAPTURE(schedule);
    const std::string name = schedule;
    const bool twice = name == "interleaved-1f1b" || name == "zb-v" || name == "dualpipev";
    // dualpipe: each expert has replicas in another pipeline and in the other direction.
    const int data = name == "dualpipe" ? 4 : 2;
    for (const char* zero : {"0", "1"})
      if (zero == std::string("0") || name != "pipedream-2bw")
        check_trains(kGpt, with(kSmallMoe, {fmt::format("parallelism={{pipeline: 2, data: {}, expert: 2, chunks: {}}}",
                                                        data, twice ? 2 : 1),
                                            fmt::format("batch.global={}", 4 * data),
                                            std::string("parallelism.zero=") + zero, "schedule=" + name}));
  }
}

TEST_CASE("a capacity is not compared with a rank that takes other micro-batches") {
  const auto bf16 = with(kSmallMoe, {"parallelism={data: 4, expert: 2}", "experts.capacity=1", "batch.global=4",
                                     "training.precision=bf16", "training.optimizer=lomo"});
  CHECK_THROWS_WITH_AS(check_trains(kGpt, bf16), doctest::Contains("set experts.capacity to dropless"), UserError);
  check_trains(kGpt, with(bf16, {"experts.capacity=dropless"}));
  check_trains(kGpt, with(bf16, {"training.precision=fp32"}));
}

TEST_CASE("gradients that are nothing but rounding are no false alarm") {
  // Seeds with a bias whose gradients partly vanish: AdamW steps by their signs, which depend on the order of
  // summation, so the whole bias differs by up to 4.3e-4 of its norm. The gradients agree to 5e-6.
  for (const int seed : {2, 6}) {
    CAPTURE(seed);
    const auto verified =
        train(kGpt, {"model={family: gpt, layers: 4, hidden: 128, heads: 4, vocabulary: 500, sequence: 64}",
                     "parallelism={tensor: 2}", "batch={global: 8, micro: 2}",
                     "training={precision: fp32, optimizer: adamw}", fmt::format("simulate.seed={}", seed)})
            .verified;
    CAPTURE(verified.failures.empty() ? std::string() : verified.failures.front());
    CHECK(verified.ok);
    CHECK(verified.max_relative_difference > 1e-4);  // the case did occur
    CHECK(verified.max_unexplained_difference < 1e-5);
    CHECK(verified.max_gathered_difference < 1e-4);
    CHECK(verified.ill_conditioned > 0);
    CHECK(verified.ill_conditioned < verified.elements / 100);
  }
}

TEST_CASE("in bf16 layouts train what one rank trains, in the memory that was predicted") {
  const Sets bf16 = with(kSmall, {"training.precision=bf16", "batch.global=8"});
  for (const char* optimizer : {"sgd", "adamw"})
    for (const char* layout :
         {"{tensor: 2}", "{data: 2, zero: 1}", "{data: 2, zero: 2}", "{tensor: 2, pipeline: 2, data: 2, zero: 3}"}) {
      CAPTURE(optimizer);
      CAPTURE(layout);
      check_trains(kGpt, with(bf16, {fmt::format("parallelism={}", layout), "training.recompute=full",
                                     fmt::format("training.optimizer={}", optimizer)}));
    }
  for (const char* schedule : {"gpipe", "zb-h1", "pipedream", "pipedream-2bw"}) {
    CAPTURE(schedule);
    check_trains(kGpt, with(bf16, {"parallelism={pipeline: 2}", "schedule=" + std::string(schedule),
                                   "model.tie_embeddings=false"}));
  }
  check_trains(kGpt, with(bf16, {"parallelism={pipeline: 2, data: 2, tensor: 2}", "training.optimizer=lomo",
                                 "model.tie_embeddings=false", "batch.global=4", "batch.micro=2"}));
  check_trains(kMlp, {"training.precision=bf16", "parallelism={tensor: 2, pipeline: 2, data: 2, zero: 2}",
                      "model.layers=4", "model.hidden=32", "model.ffn=48", "model.sequence=4"});
}

TEST_CASE("runs broken on purpose are found out") {
  // AdamW's tolerance is ten times SGD's, and its steps do not grow with the gradient: one task is still enough.
  for (const auto& [optimizer, precision] :
       {std::pair("sgd", "fp32"), std::pair("adamw", "fp32"), std::pair("sgd", "bf16"), std::pair("adamw", "bf16")}) {
    CAPTURE(precision);
    const Sets sets = with(
        kSmall, {"parallelism={pipeline: 2, data: 2}", "schedule=zb-h1",
                 fmt::format("training.precision={}", precision), fmt::format("training.optimizer={}", optimizer)});
    const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
    const auto prepared = answer::prepare(what.scenario);
    const auto& graph = prepared.graph;
    const auto at = [&](RankId rank, LocalTask task) {
      return graph.program_of(graph.ranks()[rank.index()]).coordinates[task.index()];
    };
    const auto is = [&](RankId rank, LocalTask task, KernelKind kind) {
      const auto& program = graph.program_of(graph.ranks()[rank.index()]);
      const auto* k = std::get_if<Kernel>(&graph.work(program.work[task.index()]));
      return k && k->kind == kind;
    };
    const auto found_out = [&](const char* what_is_broken, const backend::FaultInjection& fault_injection) {
      CAPTURE(optimizer);
      CAPTURE(what_is_broken);
      const auto verified = train(kGpt, sets, fault_injection).verified;
      CHECK(!verified.ok);
      CHECK(!verified.failures.empty());
    };
    REQUIRE(train(kGpt, sets).verified.ok);

    backend::FaultInjection dropped_average;  // the ranks keep their own gradients for one segment
    dropped_average.skip = [&](RankId rank, LocalTask task, int) -> bool {
      const auto& program = graph.program_of(graph.ranks()[rank.index()]);
      return at(rank, task).pass == graph::Pass::gradient_reduce && program.sequence[task.index()] == 0;
    };
    found_out("a dropped average", dropped_average);

    backend::FaultInjection stale_weight;  // one rank skips an update
    stale_weight.skip = [&](RankId rank, LocalTask task, int step) -> bool {
      return rank == RankId(3) && step == 0 && at(rank, task).pass == graph::Pass::optimizer;
    };
    found_out("a stale weight", stale_weight);

    backend::FaultInjection skipped_gradient;
    skipped_gradient.skip = [&](RankId rank, LocalTask task, int step) -> bool {
      return rank == RankId(0) && step == 1 && at(rank, task).microbatch == 2 && at(rank, task).layer == 0 &&
             is(rank, task, KernelKind::linear_weight_gradient);
    };
    found_out("a skipped weight gradient of one micro-batch", skipped_gradient);

    backend::FaultInjection swapped;  // the last stage uses the targets of another micro-batch
    swapped.other_microbatch = [&](RankId rank, LocalTask, std::uint32_t microbatch) -> std::uint32_t {
      return rank.index() >= 2 && microbatch < 2 ? 1 - microbatch : microbatch;
    };
    found_out("a swapped micro-batch", swapped);
  }
}

TEST_CASE("experts that are broken on purpose are found out") {
  const Sets sets = with(kSmallMoe, {"parallelism={data: 4, expert: 2}"});
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto prepared = answer::prepare(what.scenario);
  const auto& graph = prepared.graph;
  const auto& program = graph.program_of(graph.ranks()[0]);  // of all ranks
  const auto found_out = [&](const char* what_is_broken, LocalTask left_out) {
    CAPTURE(what_is_broken);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool { return step == 0 && task == left_out; };
    CHECK(!train(kGpt, sets, fault_injection).verified.ok);
  };
  // Each expert task of one layer and micro-batch: four all-to-alls, and kernels of both directions.
  int exchanges = 0, kernels = 0;
  for (std::size_t t = 0; t < program.size(); ++t) {
    const auto& at = program.coordinates[t];
    if (at.layer != 1 || at.microbatch != 0) continue;
    const auto& work = graph.work(program.work[t]);
    if (const auto* c = std::get_if<graph::Collective>(&work); c && c->kind == CollectiveKind::all_to_all)
      found_out("an all-to-all left out", LocalTask(t)), ++exchanges;
    if (const auto* k = std::get_if<Kernel>(&work);
        k && k->kind >= KernelKind::route && k->kind <= KernelKind::combine_rows_gradient)
      found_out(name(k->kind), LocalTask(t)), ++kernels;
  }
  CHECK(exchanges == 4);
  CHECK(kernels == 12);  // nine kinds once each, and the products of two layers
}

}  // namespace rehearsal
