// Head and loss that go chunk by chunk over the tokens train what one rank trains that takes all tokens at once, and
// never hold the logits of more than one chunk.
#include "performing.hpp"

namespace rehearsal {
namespace {

Sets chunked(const Sets& network, std::initializer_list<std::string> more) {
  return with(with(network, {"framework={use: native, loss: chunked}", "batch.global=8"}), more);
}

// Of the rank with the most.
std::int64_t peak(const Sets& sets) {
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto result = answer::predict(what.scenario, answer::Options::time_alone());
  std::int64_t most = 0;
  for (std::size_t r = 0; r < result.graph().ranks().size(); ++r)
    most = std::max(most, timeline::memory_peak(result.graph(), result.timeline, RankId(r)).peak.count());
  return most;
}

}  // namespace

TEST_CASE("a loss in chunks trains what one rank trains with all tokens at once") {
  for (const Sets& network : {kSmall, kSmallLlama, kSmallMoe})
    for (const Sets& layout : std::vector<Sets>{
             {"parallelism={tensor: 2, pipeline: 2, data: 2}", "schedule=zb-h1", "training.optimizer=adamw"},
             {"parallelism={tensor: 2, data: 2, sequence: true, zero: 1}", "training.recompute=full"},
             {"parallelism={pipeline: 2, data: 2, zero: 3}", "framework.loss_chunks=3"},
             {"parallelism={context: 2, data: 2, zero: 2}", "framework.loss_chunks=5"},
             {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 2}"},
             {"parallelism={data: 2}", "training.precision=bf16", "training.optimizer=adamw", "batch.micro=2"},
             {"parallelism={data: 1}", "framework.loss_chunks=1"},
             {"parallelism={data: 1}", "framework.loss_chunks=16"},
         }) {
      CAPTURE(layout.front());
      CAPTURE(network.front());
      Sets sets = chunked(network, {});
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_trains(kGpt, sets);
    }
}

TEST_CASE("a table that embedding and head share gets the gradient of every chunk") {
  check_trains(kGpt, chunked(kSmall, {"parallelism={pipeline: 2, data: 2}", "model.tie_embeddings=true"}));
}

TEST_CASE("the logits of one chunk alone are there") {
  // A vocabulary so large that the head decides: 4096 columns for 64 tokens in fp32, in place of which the gradient is
  // made. At once, the most is there when the gradient of their input is made. In eight chunks, 7/8 of them are not
  // there, but in the loss of a later chunk of 8 tokens that gradient is, beside its maximum, sum, logit of the target
  // and level of a row.
  const Sets large = with(kSmallLlama, {"model.vocabulary=4096", "model.sequence=64", "parallelism={data: 1}",
                                        "batch.global=2", "training.recompute=full"});
  const auto whole = peak(large), chunks = peak(with(large, {"framework={use: native, loss: chunked}"}));
  constexpr std::int64_t kLogits = 64 * 4096 * 4;
  CHECK(whole - chunks == kLogits - kLogits / 8 - 8 * (3 + 1) * 4);
  check_trains(kGpt, with(large, {"framework={use: native, loss: chunked}"}));
}

TEST_CASE("a chunk that is left out is found out") {
  const Sets sets = chunked(kSmall, {"parallelism={data: 2}"});
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto prepared = answer::prepare(what.scenario);
  const auto& program = prepared.graph.program_of(prepared.graph.ranks()[0]);
  for (const KernelKind kind : {KernelKind::linear, KernelKind::linear_input_gradient,
                                KernelKind::linear_weight_gradient, KernelKind::cross_entropy_gradient}) {
    CAPTURE(name(kind));
    std::optional<std::size_t> last;  // of the first backward's chunks
    for (std::size_t t = 0; t < program.size() && !last; ++t) {
      const auto* kernel = std::get_if<Kernel>(&prepared.graph.work(program.work[t]));
      const bool of_head = program.coordinates[t].layer == graph::kNoLayer && kernel && kernel->kind == kind &&
                           program.coordinates[t].pass == graph::Pass::backward;
      if (of_head && program.coordinates[t].microbatch == 1) last = t;
    }
    REQUIRE(last);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool {
      return step == 0 && task == LocalTask(*last);
    };
    CHECK(!train(kGpt, sets, fault_injection).verified.ok);
  }
}

TEST_CASE("what own kernels do not do with the loss is refused by name") {
  const auto refusal = [](std::initializer_list<std::string> sets) {
    return [=] { answer::predict(scenario::load(kGpt, with(kSmall, sets))); };
  };
  CHECK_THROWS_WITH_AS(refusal({"framework={use: native, loss: linear-fused}", "parallelism={data: 2}"})(),
                       doctest::Contains("set 'loss' to chunked"), UserError);
  CHECK_THROWS_WITH_AS(
      refusal({"framework={use: native, loss: chunked}", "parallelism={data: 4}", "training.optimizer=lomo",
               "model.tie_embeddings=false", "batch={global: 4, micro: 1}"})(),
      doctest::Contains("choose another 'loss'"), UserError);
  CHECK_NOTHROW(explore::load_performable(kGpt, with(kSmall, {"framework={use: native, loss: chunked}"}),
                                          backend::Compute::real, "cuda"));
}

}  // namespace rehearsal
