// Muon trains over ranks what one rank trains, in the memory that was predicted, whole matrices at their owners; and
// what is left out of its step is found out.
#include <set>

#include "performing.hpp"

namespace rehearsal {
namespace {

Sets muon(const Sets& network, std::initializer_list<std::string> more) {
  return with(with(network, {"training.optimizer=muon", "batch.global=8"}), more);
}

const Sets kHeads{
    "model={family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocabulary: 101, sequence: 16, "
    "mixer: {sinks: true, qk_norm: true, gate: true}}",
    "batch.micro=1"};

}  // namespace

TEST_CASE("Muon trains what one rank trains, in the memory that was predicted") {
  for (const Sets& network : {kSmall, kSmallLlama, kHeads})
    for (const Sets& layout : std::vector<Sets>{
             {"parallelism={data: 2}"},
             {"parallelism={pipeline: 2, data: 2}", "schedule=zb-h1"},
             {"parallelism={data: 2, zero: 1}"},
             {"parallelism={data: 4, zero: 1}", "training.recompute=full"},
             {"parallelism={data: 2, zero: 2}", "training.recompute=selective"},
             {"parallelism={pipeline: 2, data: 2, zero: 3}"},
             {"parallelism={data: 8, zero: 2}"},
             {"parallelism={context: 2, data: 2, zero: 1}"},
             {"parallelism={data: 4, shard: 2, zero: 1}"},
             {"parallelism={data: 4, shard: 2, zero: 3}"},
             {"parallelism={data: 2, zero: 1}", "training.precision=bf16"},
             {"parallelism={data: 2, zero: 3}", "training.precision=bf16"},
             {"parallelism={data: 2}", "training.precision=bf16"},
         }) {
      CAPTURE(layout.front());
      CAPTURE(layout.back());
      CAPTURE(network.front());
      Sets sets = muon(network, {});
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_trains(kGpt, sets);
    }
  check_trains(kMlp, {"training.optimizer=muon", "training.learning_rate=0.001", "parallelism={data: 2, zero: 1}",
                      "model.layers=4", "model.hidden=32", "model.ffn=48", "model.sequence=4"});
}

TEST_CASE("Muon takes old weights, loss in chunks and documents along") {
  check_trains(kGpt, muon(kSmallLlama, {"parallelism={pipeline: 2}", "schedule=pipedream-2bw"}));
  check_trains(
      kGpt, muon(kSmallLlama, {"parallelism={data: 2, zero: 2}", "framework={use: native, loss: chunked}",
                               "batch.lengths={list: [3, 7, 5]}", "batch.packing=pack", "batch.document_mask=true"}));
}

TEST_CASE("a kernel of Muon's step that is left out is found out") {
  for (const int zero : {0, 1, 3}) {
    const Sets sets = muon(kSmallLlama, {fmt::format("parallelism={{data: 2, zero: {}}}", zero)});
    const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
    const auto prepared = answer::prepare(what.scenario);
    const auto& program = prepared.graph.program_of(prepared.graph.ranks()[0]);
    std::set<KernelKind> met;
    for (std::size_t t = 0; t < program.size(); ++t) {
      const auto* kernel = std::get_if<Kernel>(&prepared.graph.work(program.work[t]));
      if (!kernel || program.coordinates[t].pass != graph::Pass::optimizer) continue;
      // What clears memory makes no difference where it is clear.
      if (kernel->kind == KernelKind::clear || !met.insert(kernel->kind).second) continue;
      CAPTURE(name(kernel->kind));
      CAPTURE(zero);
      backend::FaultInjection fault_injection;
      fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool {
        return step == 0 && task == LocalTask(t);
      };
      CHECK(!train(kGpt, sets, fault_injection).verified.ok);
    }
    CHECK(met.count(KernelKind::momentum) + met.count(KernelKind::newton_schulz) + met.count(KernelKind::muon) +
              met.count(KernelKind::adamw) + met.count(KernelKind::over_frobenius) ==
          5);
    CHECK(met.count(KernelKind::add_own_shard) == (zero > 0 ? 1 : 0));
  }
}

TEST_CASE("what own kernels do not do with Muon is refused by name") {
  const auto refusal = [](const Sets& network, std::initializer_list<std::string> sets) {
    return [=] { answer::predict(scenario::load(kGpt, muon(network, sets))); };
  };
  CHECK_THROWS_WITH_AS(refusal(kSmall, {"parallelism={tensor: 2}"})(), doctest::Contains("set 'tensor' to 1"),
                       UserError);
  CHECK_THROWS_WITH_AS(refusal(kSmallMoe, {"parallelism={data: 2}"})(), doctest::Contains("set 'optimizer' to adamw"),
                       UserError);
  CHECK_NOTHROW(
      explore::load_performable(kGpt, muon(kSmall, {"parallelism={data: 2}"}), backend::Compute::real, "cuda"));
}

}  // namespace rehearsal
