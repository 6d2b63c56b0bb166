// Attention of layers of several kinds (windows, chunks, sinks, output gates, norms of queries and keys) trains over
// ranks what one rank trains, in the memory that was predicted; and a kernel of it that is missed is found out.
#include <set>

#include "performing.hpp"

namespace rehearsal {
namespace {

Sets llama_of(const std::string& layers) {
  return {"model={family: llama, layers: " + layers +
              ", hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocabulary: 101, sequence: 16}",
          "training.optimizer=sgd", "batch.micro=1"};
}

// Windows of less than a rank's rows and of more, all positions, and chunks that no cut of the sequence meets.
const Sets kSeen = llama_of(
    "[{repeat: 1, mixer: {window: 3}}, {repeat: 1}, {repeat: 1, mixer: {chunk: 6}}, {repeat: 1, mixer: {window: 11}}]");
const Sets kGated = llama_of(
    "[{repeat: 1, mixer: {window: 5, sinks: true}}, {repeat: 1, mixer: {qk_norm: true}}, {repeat: 1, mixer: {gate: "
    "true}}, {repeat: 1, mixer: {sinks: true, qk_norm: true, gate: true}}]");
const Sets kGatedMoe = with(kSmallMoe, {"model.mixer={window: 5, sinks: true, gate: true, qk_norm: true}"});

}  // namespace

TEST_CASE("layers that see windows and chunks, with sinks, gates and norms of heads, train what one rank trains") {
  for (const Sets& layout : std::vector<Sets>{
           {"parallelism={tensor: 2, pipeline: 2, data: 2}", "schedule=zb-h1", "training.optimizer=adamw",
            "training.learning_rate=0.001"},
           {"parallelism={tensor: 2, data: 2, sequence: true, zero: 1}", "training.recompute=selective"},
           {"parallelism={pipeline: 1, data: 2, zero: 3}", "training.recompute=full"},
           {"parallelism={context: 2, data: 2, zero: 1}", "training.context=all-gather"},
           {"parallelism={context: 4, tensor: 1}", "training.context=all-gather", "training.context_balance=false"},
           {"parallelism={context: 2, pipeline: 2}", "training.context=all-to-all", "training.recompute=selective"},
           {"parallelism={context: 2, tensor: 2, sequence: true}", "training.context=all-gather"},
           {"parallelism={pipeline: 2, data: 2}", "schedule={name: seq1f1b, pieces: 4}"},
           {"parallelism={pipeline: 4}", "schedule={name: seq1f1b, pieces: 2}", "training.recompute=full"},
           {"parallelism={tensor: 2, data: 2}", "training.precision=bf16"},
       })
    for (const Sets& network : {kSeen, kGated, kGatedMoe}) {
      CAPTURE(layout.front());
      CAPTURE(network.front());
      // Where gates halve what attention adds, tables have gradients that SGD's usual rate makes several times more of:
      // of rounding too.
      Sets sets = with(network, {"batch.global=8", "training.learning_rate=0.02"});
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_trains(kGpt, sets);
    }
}

TEST_CASE("a window of all positions is full attention, to the bit") {
  const auto trained = [](const char* mixer) {
    return train(kGpt, with(kSmallLlama, {"parallelism={data: 2}", std::string("model.mixer=") + mixer})).verified;
  };
  const auto all = trained("{}"), window = trained("{window: 16}"), chunk = trained("{chunk: 100}");
  CHECK(window.loss == all.loss);
  CHECK(chunk.loss == all.loss);
  CHECK(trained("{window: 15}").loss != all.loss);
}

TEST_CASE("a sink, a gate or a norm of heads that is left out is found out") {
  const Sets sets = with(kGated, {"parallelism={tensor: 2, data: 1}", "batch.global=2"});
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto prepared = answer::prepare(what.scenario);
  const auto& program = prepared.graph.program_of(prepared.graph.ranks()[0]);
  std::set<KernelKind> met;
  for (std::size_t t = 0; t < program.size(); ++t) {
    const auto* kernel = std::get_if<Kernel>(&prepared.graph.work(program.work[t]));
    if (!kernel || kernel->kind < KernelKind::head_norm || !met.insert(kernel->kind).second) continue;
    CAPTURE(name(kernel->kind));
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool { return step == 0 && task == LocalTask(t); };
    CHECK(!train(kGpt, sets, fault_injection).verified.ok);
  }
  CHECK(met.size() == 6);
}

TEST_CASE("what own kernels do not see is refused by name") {
  const auto refusal = [](std::initializer_list<std::string> sets) {
    return [=] { train(kGpt, with(kSmallLlama, sets)); };
  };
  CHECK_THROWS_WITH_AS(
      refusal({"parallelism={context: 2, data: 1}", "training.context=ring", "model.mixer={window: 5}"})(),
      doctest::Contains("'ring' would pass keys and values to queries that cannot see them"), UserError);
  CHECK_THROWS_WITH_AS(refusal({"training.causal=false", "model.mixer={window: 5}"})(),
                       doctest::Contains("windows or chunks without a causal mask"), UserError);
  CHECK_THROWS_WITH_AS(refusal({"model.mixer={sparse: 5, index_heads: 2, index_dim: 8}"})(),
                       doctest::Contains("sparse attention"), UserError);
}

}  // namespace rehearsal
