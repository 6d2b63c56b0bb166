// Layers of Mamba-2, beside layers of attention and with experts, train over ranks what one rank trains, in the memory
// that was predicted; a kernel of them that is missed is found out; and what own kernels cannot do is refused.
#include <set>

#include "performing.hpp"

namespace rehearsal {
namespace {

// States narrower than the sequence, so that there are several chunks, and wider. Heads share a group: one alone may
// make nearly nothing of a token, of which the norm of its group makes much, and so of rounding.
const std::string kNarrow = "mixer: {kind: mamba2, heads: 8, kv_heads: 4, head_dim: 5, value_dim: 16}";
const std::string kWide = "mixer: {kind: mamba2, heads: 12, kv_heads: 4, head_dim: 20, value_dim: 12, convolution: 3}";
Sets states_of(const std::string& family, const std::string& layers, const std::string& more = "") {
  return {"model={family: " + family + ", layers: [" + layers +
              "], hidden: 64, heads: 4, kv_heads: 4, ffn: 48, vocabulary: 101, sequence: 16" + more + "}",
          "training.optimizer=sgd", "batch.micro=1"};
}
const Sets kLlama =
    states_of("llama", "{repeat: 1, " + kNarrow + "}, {repeat: 1}, {repeat: 1, " + kWide + "}, {repeat: 1}");
const Sets kGptStates =
    states_of("gpt", "{repeat: 1}, {repeat: 1, " + kWide + "}, {repeat: 1}, {repeat: 1, " + kNarrow + "}");
const Sets kMoe = states_of("moe", "{repeat: 2, " + kNarrow + "}, {repeat: 1}, {repeat: 1, ffn: dense, " + kWide + "}",
                            ", experts: 4, experts_per_token: 2, expert_ffn: 24, shared_experts: 1");
// Halves by themselves, as Megatron writes hybrid models: a mixer of either kind, or a feed-forward part.
const Sets kHalves = states_of(
    "llama", "{repeat: 1, ffn: none, " + kNarrow +
                 "}, {repeat: 1, mixer: none}, {repeat: 1, ffn: none}, {repeat: 1, ffn: none, " + kWide + "}");

// AdamW compares what it gathered tensor by tensor. Small steps: a table of small numbers before a norm has large
// gradients, which the usual ones throw about, and rounding with them.
Sets trained_by(const Sets& network, const Sets& layout) {
  Sets sets = with(network, {"batch.global=8", "training.optimizer=adamw", "training.learning_rate=0.0001"});
  sets.insert(sets.end(), layout.begin(), layout.end());
  return sets;
}

}  // namespace

TEST_CASE("layers with a state train over ranks what one rank trains, in the memory that was predicted") {
  for (const Sets& layout : std::vector<Sets>{
           {"parallelism={tensor: 2, pipeline: 2, data: 2}", "schedule=zb-h1"},
           {"parallelism={tensor: 4, data: 2, sequence: true, zero: 1}", "training.recompute=selective"},
           {"parallelism={pipeline: 1, data: 2, zero: 3}", "training.recompute=full", "batch.micro=2"},
           {"parallelism={context: 2, data: 2, zero: 1}", "training.context=ring", "batch.micro=2"},
           {"parallelism={context: 4, tensor: 1}", "training.context=all-gather", "training.context_balance=false"},
           {"parallelism={context: 2, pipeline: 2}", "training.context=all-to-all", "training.recompute=selective"},
           {"parallelism={context: 2, tensor: 2, sequence: true}", "training.recompute=full"},
           {"parallelism={pipeline: 2, data: 2}", "schedule={name: seq1f1b, pieces: 4}", "batch.micro=2"},
           {"parallelism={pipeline: 4}", "schedule={name: seq1f1b, pieces: 2}", "training.recompute=full"},
           {"parallelism={pipeline: 2, tensor: 2, sequence: true}", "schedule={name: seq1f1b, pieces: 4}",
            "training.recompute=selective"},
           {"parallelism={tensor: 2, data: 2}", "training.precision=bf16"},
           {"parallelism={context: 2, data: 2}", "training.precision=bf16"},
           {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 4}", "training.precision=bf16"},
       })
    for (const Sets& network : {kLlama, kGptStates, kMoe, kHalves}) {
      CAPTURE(layout.front());
      CAPTURE(network.front());
      check_trains(kGpt, trained_by(network, layout));
    }
}

TEST_CASE("a kernel of a layer with a state that is left out is found out") {
  std::set<KernelKind> met;
  for (const Sets& layout : std::vector<Sets>{{"parallelism={tensor: 2}"},
                                              {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 2}"}}) {
    const Sets sets = trained_by(kLlama, layout);
    const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
    const auto prepared = answer::prepare(what.scenario);
    const auto& program = prepared.graph.program_of(prepared.graph.ranks()[0]);
    for (std::size_t t = 0; t < program.size(); ++t) {
      const auto* kernel = std::get_if<Kernel>(&prepared.graph.work(program.work[t]));
      if (!kernel || kernel->kind < KernelKind::convolve || !met.insert(kernel->kind).second) continue;
      CAPTURE(name(kernel->kind));
      backend::FaultInjection fault_injection;
      fault_injection.skip = [&](RankId rank, LocalTask task, int step) -> bool {
        return rank == RankId(0) && step == 0 && task == LocalTask(t);
      };
      CHECK(!train(kGpt, sets, fault_injection).verified.ok);
    }
  }
  constexpr auto kFirst = static_cast<std::size_t>(KernelKind::convolve),
                 kLast = static_cast<std::size_t>(KernelKind::gated_norm_gradient);
  CHECK(met.size() == kLast - kFirst + 1);
}

TEST_CASE("what own kernels cannot do with a state is refused by name") {
  const auto refused = [](const std::string& mixer, std::initializer_list<std::string> sets, const char* why) {
    const auto network = states_of("llama", "{repeat: 4, mixer: {" + mixer + "}}");
    CHECK_THROWS_WITH_AS(train(kGpt, with(network, sets)), doctest::Contains(why), UserError);
  };
  refused("kind: delta", {}, "the gated delta rule");
  refused("kind: lightning", {}, "of mixers with a state it performs mamba2");
  const std::string mamba = "kind: mamba2, heads: 4, kv_heads: 2, head_dim: 8";
  refused(mamba + ", convolution: 0", {"parallelism={data: 2}"}, "set 'convolution' of the mixer to one of 2 to 64");
  refused("kind: mamba2, heads: 4, kv_heads: 4, head_dim: 257", {"parallelism={data: 2}"}, "'head_dim' to fewer");
  refused("kind: mamba2, heads: 4, kv_heads: 3, head_dim: 8", {"parallelism={data: 2}"}, "a multiple of 'kv_heads'");
  refused(mamba, {"parallelism={context: 2, tensor: 2}"}, "'tensor' 2 x 'context' 2 do not divide the 2");
  refused(mamba, {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 8}"}, "'schedule.pieces' to fewer");
}

}  // namespace rehearsal
