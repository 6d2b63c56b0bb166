// Sequences split over ranks of a context or tensor group train what one rank with the whole sequences trains; and a
// missing block of keys and values is detected.
#include "performing.hpp"

namespace rehearsal {
namespace {

constexpr const char* kForms[] = {"ring", "all-gather", "all-to-all"};

}  // namespace

TEST_CASE("sequences over several ranks train what one rank trains, in the memory that was predicted") {
  for (const std::string form : kForms)
    for (const Sets& layout : std::vector<Sets>{
             {"parallelism={context: 2, data: 2}", "training.optimizer=adamw"},
             {"parallelism={context: 4}", "training.context_balance=false"},
             {"parallelism={context: 2, data: 2}", "training.causal=false"},
             // States are sharded over data x context, in either order of placement.
             {"parallelism={context: 2, data: 2, zero: 1}", "training.optimizer=adamw"},
             {"parallelism={context: 2, data: 2, zero: 2}", "placement=[pipeline, context, expert, data, tensor]"},
             {"parallelism={context: 2, data: 1, zero: 3}", "training.recompute=full"},
             {"parallelism={context: 2, tensor: 2, zero: 1}", "training.recompute=selective"},
             {"parallelism={context: 2, pipeline: 2, data: 2}", "schedule=zb-h1"},
             {"parallelism={context: 2, pipeline: 2, chunks: 2}", "schedule=zb-v"},
             {"parallelism={context: 2, pipeline: 2}", "schedule=dualpipe"},
             {"parallelism={context: 2, data: 2, zero: 1}", "training.precision=bf16", "batch.global=8"},
         })
      for (const bool llama : {false, true}) {
        CAPTURE(form);
        CAPTURE(layout.front());
        if (llama == (form == "all-gather")) continue;  // each form with one of the two
        Sets sets = with(llama ? kSmallLlama : kSmall, {"training.context=" + form, "batch.global=8"});
        sets.insert(sets.end(), layout.begin(), layout.end());
        if (llama && form == "all-to-all" && layout[0].find("context: 4") != std::string::npos)
          sets.emplace_back("model.kv_heads=4");
        if (llama && form == "all-to-all" && layout[0].find("tensor: 2") != std::string::npos)
          sets.emplace_back("model.kv_heads=4");
        check_trains(kGpt, sets);
      }
}

TEST_CASE("experts and sequences over the same ranks train what one rank trains") {
  for (const std::string form : kForms)
    for (const char* parallelism : {"{context: 2, data: 2, expert: 4}", "{context: 2, data: 2, expert: 2, zero: 1}",
                                    "{context: 2, pipeline: 2, data: 1, expert: 2}"}) {
      CAPTURE(form);
      CAPTURE(parallelism);
      check_trains(kGpt, with(kSmallMoe, {std::string("parallelism=") + parallelism, "training.context=" + form,
                                          "batch.global=8"}));
    }
}

TEST_CASE("tokens over tensor ranks train what one rank trains, in the memory that was predicted") {
  for (const Sets& layout : std::vector<Sets>{
           {"parallelism={tensor: 2, data: 2, sequence: true}", "training.optimizer=adamw"},
           {"parallelism={tensor: 2, data: 2, sequence: true, zero: 1}", "training.recompute=full"},
           {"parallelism={tensor: 2, data: 2, sequence: true, zero: 2}", "training.recompute=selective"},
           {"parallelism={tensor: 2, data: 2, pipeline: 2, sequence: true, zero: 3}", "schedule=zb-h1"},
           {"parallelism={tensor: 2, context: 2, data: 1, sequence: true, zero: 1}"},
           {"parallelism={tensor: 2, context: 2, pipeline: 2, sequence: true}", "training.context=all-gather"},
           {"parallelism={tensor: 2, pipeline: 2, sequence: true}", "schedule=dualpipe"},
           {"parallelism={tensor: 2, pipeline: 2, sequence: true}", "schedule=pipedream", "model.tie_embeddings=false"},
           {"parallelism={tensor: 2, data: 2, sequence: true}", "training.optimizer=lomo", "batch.global=2",
            "model.tie_embeddings=false"},
       })
    for (const bool llama : {false, true}) {
      CAPTURE(layout.front());
      CAPTURE(llama);
      Sets sets = with(llama ? kSmallLlama : kSmall, {"batch.global=8"});
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_trains(kGpt, sets);
    }
  check_trains(kGpt, with(kSmall, {"parallelism={tensor: 4, sequence: true}"}));
  check_trains(kGpt, with(kSmall, {"parallelism={tensor: 2, pipeline: 2, sequence: true}", "training.precision=bf16"}));
}

TEST_CASE("sequences in pieces train what one rank trains, in the memory that was predicted") {
  for (const Sets& layout : std::vector<Sets>{
           {"parallelism={pipeline: 2, data: 2}", "schedule={name: seq1f1b, pieces: 4}", "training.optimizer=adamw"},
           {"parallelism={pipeline: 4}", "schedule={name: seq1f1b, pieces: 3}", "batch.sequence=12",
            "training.recompute=full"},
           {"parallelism={pipeline: 2, tensor: 2, sequence: true}", "training.recompute=selective"},
           {"parallelism={pipeline: 2, data: 2, zero: 3}", "training.recompute=full"},
           {"parallelism={pipeline: 1, data: 2, zero: 2}", "schedule={name: seq1f1b, pieces: 8}"},
           {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 1}"},
       })
    for (const Sets& network : {kSmall, kSmallLlama, kSmallMoe}) {
      CAPTURE(layout.front());
      CAPTURE(network.front());
      Sets sets = with(network, {"schedule=seq1f1b", "batch.global=8"});
      sets.insert(sets.end(), layout.begin(), layout.end());
      check_trains(kGpt, sets);
    }
  check_trains(kGpt, with(kSmall, {"parallelism={pipeline: 2}", "schedule=seq1f1b", "training.precision=bf16"}));
}

// Without sequence parallelism each tensor rank sends different tokens, although all ranks have all tokens.
TEST_CASE("experts over tensor ranks, whole or cut, train what one rank trains") {
  for (const char* sequence : {"false", "true"})
    for (const Sets& layout : std::vector<Sets>{
             {"parallelism={tensor: 2, data: 2}", "training.optimizer=adamw"},
             {"parallelism={tensor: 2, data: 2, expert: 4, zero: 1}"},
             {"parallelism={tensor: 2, data: 2, expert: 2, zero: 2}", "model.shared_experts=0"},
             {"parallelism={tensor: 2, data: 2, expert: 2, expert_tensor: 2, zero: 1}", "training.optimizer=adamw"},
             {"parallelism={tensor: 2, data: 4, expert: 2, expert_tensor: 2, zero: 3}", "training.recompute=full"},
             {"parallelism={tensor: 1, data: 4, expert: 2, expert_tensor: 2}"},
             {"parallelism={tensor: 2, context: 2, data: 1, expert: 2}"},
             {"parallelism={tensor: 2, pipeline: 2, data: 2, expert: 2}", "schedule=zb-h1"},
         }) {
      CAPTURE(layout.front());
      CAPTURE(sequence);
      Sets sets = with(kSmallMoe, {"batch.global=8"});
      sets.insert(sets.end(), layout.begin(), layout.end());
      sets.push_back(std::string("parallelism.sequence=") + sequence);
      check_trains(kGpt, sets);
    }
}

TEST_CASE("a piece of a sequence that is missed is found out") {
  const Sets sets = with(kSmallLlama, {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 3}",
                                       "batch.global=2", "batch.sequence=12"});
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto prepared = answer::prepare(what.scenario);
  const auto& program = prepared.graph.program_of(prepared.graph.ranks()[0]);
  int blocks = 0, others = 0;  // of the pieces of one layer and micro-batch
  for (std::size_t t = 0; t < program.size(); ++t) {
    const auto& at = program.coordinates[t];
    if (at.layer != 1 || at.microbatch >= 3) continue;
    const auto* kernel = std::get_if<Kernel>(&prepared.graph.work(program.work[t]));
    if (!kernel || kernel->kind < KernelKind::attention_part || kernel->kind > KernelKind::cut_rows) continue;
    CAPTURE(t);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool { return step == 0 && task == LocalTask(t); };
    CHECK(!train(kGpt, sets, fault_injection).verified.ok);
    const bool block =
        kernel->kind == KernelKind::attention_part || kernel->kind == KernelKind::attention_part_gradient;
    ++(block ? blocks : others);
  }
  CHECK(blocks == 2 * (1 + 2 + 3));
  CHECK(others == 3 * 2 + 3 * 2);  // keys and values taken, results put; two gradients put
}

TEST_CASE("what pieces of a sequence cannot be is refused") {
  const auto refusal = [](std::initializer_list<std::string> sets) { return [=] { train(kGpt, with(kSmall, sets)); }; };
  CHECK_THROWS_WITH_AS(refusal({"schedule={name: seq1f1b, pieces: 3}", "batch.sequence=16"})(),
                       doctest::Contains("'pieces' 3 does not divide the 16 tokens of a sequence; nearest: 2 or 4"),
                       UserError);
  CHECK_THROWS_WITH_AS(refusal({"schedule=seq1f1b", "training.causal=false"})(),
                       doctest::Contains("computes the first tokens of a sequence before the later ones"), UserError);
  CHECK_THROWS_WITH_AS(refusal({"schedule=seq1f1b", "parallelism={context: 2, data: 1}"})(),
                       doctest::Contains("set 'context' to 1, or choose another schedule"), UserError);
  CHECK_THROWS_WITH_AS(refusal({"schedule=seq1f1b", "training.optimizer=lomo", "parallelism={pipeline: 2}",
                                "batch.global=1", "model.tie_embeddings=false"})(),
                       doctest::Contains("a piece of a sequence gives a part of it only; set schedule to 1f1b"),
                       UserError);
  CHECK_THROWS_WITH_AS(train(kMlp, {"schedule=seq1f1b"}), doctest::Contains("family 'mlp' has no sequences"), UserError);
}

TEST_CASE("more ranks than key-value heads, and a capacity that depends on whose rows they are, are refused") {
  CHECK_THROWS_WITH_AS(train(kGpt, with(kSmallLlama, {"parallelism={context: 4}", "training.context=all-to-all"})),
                       doctest::Contains("does not divide the 2 of a rank; set 'training.context' to ring"), UserError);
  for (const char* axis : {"context", "tensor"})
    CHECK_THROWS_WITH_AS(
        train(kGpt, with(kSmallMoe, {fmt::format("parallelism={{{}: 2, data: 1}}", axis), "experts.capacity=1"})),
        doctest::Contains("set experts.capacity to dropless"), UserError);
}

TEST_CASE("a sum over tensor ranks that is left out is found out") {
  const Sets sets = with(kSmallMoe, {"parallelism={tensor: 2, data: 1, expert: 2, sequence: true}", "batch.global=4"});
  const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
  const auto prepared = answer::prepare(what.scenario);
  const auto& graph = prepared.graph;
  const auto& program = graph.program_of(graph.ranks()[0]);
  int sums = 0;
  for (std::size_t t = 0; t < program.size(); ++t) {
    const auto* sum = std::get_if<graph::Collective>(&graph.work(program.work[t]));
    if (!sum || sum->inside != Axis::tensor || program.coordinates[t].pass != graph::Pass::gradient_reduce) continue;
    CAPTURE(t);
    backend::FaultInjection fault_injection;
    fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool { return step == 0 && task == LocalTask(t); };
    CHECK(!train(kGpt, sets, fault_injection).verified.ok);
    ++sums;
  }
  CHECK(sums == 5);  // of the four layers and of the last norm; positions are rotated, and the table is cut
}

TEST_CASE("a block of keys and values that is missed is found out") {
  for (const std::string form : kForms) {
    const Sets sets =
        with(kSmallLlama, {"parallelism={context: 2, data: 1}", "training.context=" + form, "batch.global=4"});
    const auto what = explore::load_performable(kGpt, sets, backend::Compute::real, "loopback");
    const auto prepared = answer::prepare(what.scenario);
    const auto& graph = prepared.graph;
    const auto& program = graph.program_of(graph.ranks()[0]);
    // Every exchange of one layer and micro-batch, and every kernel around them.
    int exchanges = 0, kernels = 0;
    for (std::size_t t = 0; t < program.size(); ++t) {
      const auto& at = program.coordinates[t];
      if (at.layer != 1 || at.microbatch != 0) continue;
      const auto& work = graph.work(program.work[t]);
      const auto* collective = std::get_if<graph::Collective>(&work);
      const auto* kernel = std::get_if<Kernel>(&work);
      const bool part = kernel && kernel->kind >= KernelKind::attention_part && kernel->kind <= KernelKind::cut_rows;
      if (!part && !(collective && collective->inside == Axis::context)) continue;
      CAPTURE(form);
      CAPTURE(t);
      backend::FaultInjection fault_injection;
      fault_injection.skip = [&](RankId, LocalTask task, int step) -> bool {
        return step == 0 && task == LocalTask(t);
      };
      CHECK(!train(kGpt, sets, fault_injection).verified.ok);
      ++(part ? kernels : exchanges);
    }
    CAPTURE(form);
    CHECK(exchanges == (form == "ring" ? 4 : form == "all-gather" ? 3 : 4));
    CHECK(kernels == (form == "ring" ? 9 : form == "all-gather" ? 7 : 8));
  }
}

}  // namespace rehearsal
