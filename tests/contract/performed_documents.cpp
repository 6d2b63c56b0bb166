// Sequences that documents fill, of which tokens see their own alone, train over ranks what one rank trains, in the
// memory that was predicted; and the mask makes a difference.
#include "performing.hpp"

namespace rehearsal {
namespace {

constexpr const char* kFixed = "batch.lengths={fixed: 6}";
constexpr const char* kListed = "batch.lengths={list: [3, 7, 1, 5]}";

Sets packed(const Sets& network, const char* lengths, bool mask = true) {
  return with(network, {"batch.global=8", lengths, "batch.packing=pack",
                        std::string("batch.document_mask=") + (mask ? "true" : "false")});
}

// Windows and chunks that end within documents, and before them.
const Sets kSeen{
    "model={family: llama, layers: [{repeat: 1, mixer: {window: 3}}, {repeat: 1}, {repeat: 1, mixer: {chunk: 4}}, "
    "{repeat: 1, mixer: {window: 11, sinks: true}}], hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocabulary: 101, "
    "sequence: 16}",
    "training.optimizer=sgd", "batch.micro=1", "training.learning_rate=0.02"};

}  // namespace

TEST_CASE("documents of packed sequences train what one rank trains") {
  for (const Sets& network : {kSmall, kSmallLlama, kSmallMoe, kSeen})
    for (const Sets& layout : std::vector<Sets>{
             {"parallelism={tensor: 2, pipeline: 2, data: 2}", "schedule=zb-h1", "training.optimizer=adamw",
              "training.learning_rate=0.001"},
             {"parallelism={tensor: 2, data: 2, sequence: true, zero: 1}", "training.recompute=selective"},
             {"parallelism={data: 2, zero: 3}", "training.recompute=full", "batch.micro=2"},
             {"parallelism={context: 2, data: 2}", "training.context=all-gather"},
             {"parallelism={context: 4}", "training.context=all-gather", "training.context_balance=false"},
             {"parallelism={context: 2}", "training.context=all-to-all", "batch.micro=2"},
             {"parallelism={pipeline: 2}", "schedule={name: seq1f1b, pieces: 2}"},
             {"parallelism={data: 2}", "training.precision=bf16"},
         })
      for (const char* lengths : {kFixed, kListed}) {
        CAPTURE(layout.front());
        CAPTURE(network.front());
        CAPTURE(lengths);
        Sets sets = packed(network, lengths);
        sets.insert(sets.end(), layout.begin(), layout.end());
        check_trains(kGpt, sets);
      }
  // Keys and values that go round a ring meet queries of other documents, which see nothing of them.
  for (const Sets& network : {kSmall, kSmallLlama})
    for (const char* context : {"{context: 2, data: 2}", "{context: 4}"})
      check_trains(kGpt,
                   with(packed(network, kListed), {std::string("parallelism=") + context, "training.context=ring"}));
}

TEST_CASE("a loss in chunks goes with documents") {
  check_trains(kGpt, with(packed(kSmallLlama, kListed),
                          {"parallelism={data: 2, tensor: 2}", "framework={use: native, loss: chunked}"}));
}

TEST_CASE("a mask of documents makes a difference, and documents that see each other none") {
  const auto losses = [](const Sets& sets) { return train(kGpt, with(sets, {"parallelism={data: 2}"})).verified.loss; };
  for (const Sets& network : {kSmall, kSmallLlama}) {
    const auto plain = losses(with(network, {"batch.global=8"}));
    CHECK(losses(packed(network, kListed)) != plain);
    CHECK(losses(packed(network, kListed)) != losses(packed(network, kFixed)));
    CHECK(losses(packed(network, kListed, false)) == plain);
    CHECK(losses(packed(network, "batch.lengths={fixed: 16}")) == plain);
  }
}

TEST_CASE("what own kernels do not do with documents is refused by name") {
  const auto refusal = [](std::initializer_list<std::string> sets) {
    return [=] { answer::predict(scenario::load(kGpt, with(kSmall, sets))); };
  };
  CHECK_THROWS_WITH_AS(refusal({kFixed})(), doctest::Contains("set it to pack"), UserError);
  CHECK_THROWS_WITH_AS(refusal({kFixed, "batch.packing=pack", "batch.document_mask=true", "training.causal=false"})(),
                       doctest::Contains("set training.causal to true"), UserError);
  CHECK_NOTHROW(explore::load_performable(kGpt, packed(kSmall, kFixed), backend::Compute::real, "cuda"));
}

}  // namespace rehearsal
