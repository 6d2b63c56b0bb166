// Training with states outside the device, performed: a second heap and a file as tiers, copies beside kernels, AdamW
// on the host. Every legal combination trains what one rank trains that keeps everything, and uses the predicted memory
// on every tier, to the byte.
#include <set>

#include "../nightly.hpp"
#include "performing.hpp"

namespace rehearsal {
namespace {

const char* const kTierNames[] = {"device", "host", "nvme"};

std::string offload(int optimizer, int gradients, int parameters, int activations, const char* more = "") {
  return fmt::format("training.offload={{optimizer: {}, gradients: {}, parameters: {}, activations: {}{}}}",
                     kTierNames[optimizer], kTierNames[gradients], kTierNames[parameters], kTierNames[activations],
                     more);
}

const Sets kAdam = with(kSmall, {"training.optimizer=adamw"});

}  // namespace

TEST_CASE("whatever leaves the device, the network is the same, and so is the memory of every tier") {
  int combinations = 0;
  for (int optimizer = 0; optimizer < 3; ++optimizer)
    for (int gradients = 0; gradients <= optimizer; ++gradients)
      for (int parameters = 0; parameters <= optimizer; ++parameters)
        for (int activations = 0; activations < 3; ++activations) {
          // The least sharding that the combination permits, on two replicas; or one rank alone.
          const int zero = parameters > 0 ? 3 : gradients > 0 ? 2 : optimizer > 0 ? 1 : 0;
          const bool alone = (combinations++ + activations) % 3 == 0;
          if (!nightly() && combinations % 2 == 0) continue;  // by day every other one
          const auto what = offload(optimizer, gradients, parameters, activations);
          CAPTURE(what);
          check_trains(
              kGpt, with(kAdam, {what, "training.recompute=full",
                                 alone ? "parallelism={}" : fmt::format("parallelism={{data: 2, zero: {}}}", zero)}));
        }
  CHECK(combinations == 42);
}

TEST_CASE("tiers go with tensor, pipeline and context parallelism, narrow weights and any depth") {
  const auto all_on_disks = offload(2, 2, 2, 2), on_host = offload(1, 1, 1, 1), states = offload(1, 1, 0, 0);
  for (const auto& sets : std::vector<Sets>{
           {"parallelism={tensor: 2, data: 2, zero: 3}", all_on_disks},
           {"parallelism={tensor: 2, data: 2, zero: 2}", states, "parallelism.sequence=true"},
           {"parallelism={tensor: 2, data: 2, zero: 1}", offload(2, 0, 0, 1)},
           {"parallelism={pipeline: 2, data: 2, zero: 3}", all_on_disks, "model.tie_embeddings=false"},
           {"parallelism={pipeline: 2, data: 2, zero: 2}", states, "model.tie_embeddings=false", "schedule=zb-h1"},
           {"parallelism={pipeline: 2, data: 1}", offload(1, 0, 0, 2), "schedule=1f1b"},
           {"parallelism={pipeline: 2, chunks: 2, data: 1}", on_host, "model.tie_embeddings=false",
            "schedule=interleaved-1f1b"},
           {"parallelism={context: 2, data: 1, zero: 3}", on_host},
           {"parallelism={data: 2, zero: 3}", all_on_disks, "training.precision=bf16"},
           {"parallelism={data: 2, zero: 2}", states, "training.precision=bf16"},
           {"parallelism={data: 2, zero: 1}", offload(2, 0, 0, 0), "training.precision=bf16"},
           {"parallelism={}", on_host, "training.precision=bf16"},
           {"parallelism={data: 2, zero: 3}", offload(2, 2, 2, 2, ", prefetch: 3")},
           {"parallelism={data: 2, zero: 3}", offload(1, 1, 1, 1, ", prefetch: 0"), "model.layers=6"},
       }) {
    CAPTURE(sets);
    Sets all = with(kAdam, {"training.recompute=full"});
    all.insert(all.end(), sets.begin(), sets.end());
    check_trains(kGpt, all);
  }
  // Another family; experts, whose optimizer alone leaves.
  check_trains(kGpt, with(kSmallLlama, {"training.optimizer=adamw", "training.recompute=full", all_on_disks,
                                        "parallelism={data: 2, zero: 3}"}));
  check_trains(kGpt, with(kSmallMoe, {"training.optimizer=adamw", offload(1, 0, 0, 0),
                                      "parallelism={data: 4, expert: 2, zero: 1}"}));
  check_trains(kGpt, with(kSmallMoe, {"training.optimizer=adamw", offload(2, 0, 0, 0),
                                      "parallelism={data: 2, expert: 2, zero: 3}"}));
}

TEST_CASE("checkpoints that are cut over the tensor group come back whole (ZeRO-R)") {
  for (const char* where : {"device", "host"})
    for (const Sets& sets : std::vector<Sets>{{"parallelism={tensor: 2}"},
                                              {"parallelism={tensor: 2, data: 2, zero: 3}", "training.precision=bf16"},
                                              {"parallelism={tensor: 2, pipeline: 2}", "schedule=zb-h1"},
                                              {"parallelism={tensor: 4}", "training.optimizer=sgd"}}) {
      CAPTURE(where);
      CAPTURE(sets.front());
      Sets all = with(kAdam, {"training.recompute=full", std::string("training.partition_activations=") + where});
      all.insert(all.end(), sets.begin(), sets.end());
      check_trains(kGpt, all);
    }
}

TEST_CASE("a delayed update trains as one rank does whose updates are one step late, and not as one without delay") {
  for (const Sets& sets : std::vector<Sets>{
           {"parallelism={}", offload(1, 1, 0, 0, ", delayed_update: true")},
           {"parallelism={data: 2, zero: 2}", offload(1, 1, 0, 0, ", delayed_update: true")},
           {"parallelism={data: 2, zero: 3}", offload(2, 2, 0, 2, ", delayed_update: true")},
           {"parallelism={data: 2, zero: 2}", offload(2, 1, 0, 0, ", delayed_update: true"), "training.precision=bf16"},
           {"parallelism={tensor: 2, data: 2, zero: 2}", offload(1, 1, 0, 1, ", delayed_update: true")}}) {
    CAPTURE(sets);
    Sets all = with(kAdam, {"training.recompute=full"});
    all.insert(all.end(), sets.begin(), sets.end());
    check_trains(kGpt, all, 4);
  }
  const auto undelayed = train(kGpt, with(kAdam, {"parallelism={}", offload(1, 1, 0, 0)}), {}, 4);
  const auto delayed =
      train(kGpt, with(kAdam, {"parallelism={}", offload(1, 1, 0, 0, ", delayed_update: true")}), {}, 4);
  CHECK(undelayed.verified.loss[0] == doctest::Approx(delayed.verified.loss[0]));
  CHECK(delayed.verified.loss[1] == doctest::Approx(delayed.verified.loss[0]));  // nothing was updated yet
  CHECK(delayed.verified.loss[2] == doctest::Approx(undelayed.verified.loss[1]));
  CHECK(delayed.verified.loss[2] > undelayed.verified.loss[2]);
}

TEST_CASE("a copy or a step of the host that is left out is found") {
  const auto everything =
      with(kAdam, {"parallelism={data: 2, zero: 3}", "training.recompute=full", offload(2, 2, 2, 2)});
  const auto question =
      answer::prepare(explore::load_performable(kGpt, everything, backend::Compute::real, "loopback").scenario);
  const auto& program = question.graph.programs().front();
  std::set<graph::Lane> lanes;
  for (std::size_t t = 0; t < program.size(); ++t) {
    if (graph::info(program.lane[t]).kind != graph::LaneKind::tiers) continue;
    if (!lanes.insert(program.lane[t]).second) continue;  // the first of each lane
    CAPTURE(graph::name(program.lane[t]));
    backend::FaultInjection fault_injection;
    fault_injection.skip = [t](RankId rank, LocalTask task, int step) {
      return rank.value == 0 && task.index() == t && step == 1;
    };
    CHECK_FALSE(train(kGpt, everything, fault_injection).verified.ok);
  }
  CHECK(lanes.size() == 5);
}

TEST_CASE("what this program's own kernels leave to frameworks is refused with the way out") {
  const auto refused = [](const Sets& sets, const char* why) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(train(kGpt, sets), doctest::Contains(why), UserError);
  };
  refused(with(kSmall, {"parallelism={}", offload(1, 0, 0, 0)}), "set training.optimizer to adamw");
  refused(with(kAdam, {"parallelism={pipeline: 2}", offload(1, 1, 0, 0)}), "set model.tie_embeddings to false");
  refused(with(kAdam, {"parallelism={data: 2, zero: 3}", offload(1, 0, 1, 0, ", owner: one")}),
          "a share on every rank");
  refused(with(kAdam,
               {"parallelism={pipeline: 2}", "schedule=pipedream", "model.tie_embeddings=false", offload(1, 0, 0, 0)}),
          "old versions of the weights stay on the device");
  refused(with(kAdam, {"parallelism={pipeline: 2}", "model.tie_embeddings=false", "schedule=zb-h2",
                       "training.optimizer_sync=post-validation", "simulate.iterations=2", offload(1, 0, 0, 0)}),
          "leave training.offload out");
}

}  // namespace rehearsal
