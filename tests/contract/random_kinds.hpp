// What models, batches and shards have had since the first random trainings (random_scenario.hpp): layers of several
// kinds, towers, documents, shards of a part of the replicas, losses in chunks, Muon. Each is drawn from a stream of
// its own, so that nothing else is drawn otherwise; most trainings have none.
#pragma once
#include "random_training.hpp"

namespace rehearsal::contract {

class RandomKinds : Draws {
 public:
  struct Of {
    int tensor, layers, data, tokens;
    bool latent;
  };
  RandomKinds(std::uint64_t seed, Of of) : Draws(seed), of_(of) {
    layers = fmt::format("{}", of.layers);
    if (chance(12)) tower();
    if (chance(15)) mixer();
    if (chance(10) && !of.latent) mixers();
    if (chance(15) && of.data % 2 == 0) parallelism = fmt::format(", shard: {}", of.data / 2);
    if (chance(8)) training = "optimizer: muon";
    if (chance(10))
      batch = fmt::format(", lengths: {}, packing: pack, document_mask: {}",
                          one_of({"{fixed: 100}", "{list: [60, 200, 333]}", "{lognormal: [5, 0.7]}"}),
                          one_of({"true", "false"}));
    if (chance(10)) loss = one_of({"chunked", "linear-fused"});
  }

  std::string layers, model, parallelism, training, batch, loss;

 private:
  void tower() {
    model += fmt::format(
        ", vision: {{layers: {}, hidden: {}, heads: {}, patch: 588, merge: {}, tokens: {}, picture_tokens: {}, "
        "projector: {}, deepstack: {}{}}}",
        one_of({1, 2, 5}), of_.tensor * one_of({64, 128, 144}), of_.tensor * one_of({1, 2}), one_of({1, 4}),
        one_of({32, 96, 100}), one_of({16, 32}), one_of({"mlp", "linear"}), one_of({0, 0, 2}),
        chance(30) ? ", frozen: true" : "");
  }
  // Of every layer.
  void mixer() {
    model += fmt::format(", mixer: {{{}}}",
                         one_of({"window: 128", "window: 1000", "chunk: 256", "gate: true", "sinks: true",
                                 "sparse: 200, index_heads: 4, index_dim: 64", "gate: true, window: 333, sinks: true",
                                 "keys_as_values: true", "keys_as_values: true, qk_norm: true"}));
  }
  // A recurrent layer for each one that is not, or layers of one half.
  void mixers() {
    const int heads = of_.tensor * one_of({2, 4});
    const auto state = fmt::format("{{kind: {}, heads: {}, kv_heads: {}, head_dim: {}, value_dim: {}}}",
                                   one_of({"linear", "mamba2", "lightning"}), heads, of_.tensor * one_of({1, 2}),
                                   one_of({64, 128}), one_of({64, 128}));
    if (of_.layers % 2 == 0)
      layers = fmt::format("[{{repeat: {}, layers: [{{mixer: {}{}}}, {}]}}]", of_.layers / 2, state,
                           one_of({"", ", ffn: none"}), one_of({"{}", "{}", "{mixer: none}"}));
  }

  Of of_;
};

}  // namespace rehearsal::contract
