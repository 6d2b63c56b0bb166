// What may be said of a model: its sizes, its mixers and feed-forward parts, layers that are listed, its experts.
#include "models/fields.hpp"

namespace rehearsal::models {

using namespace fields;

constexpr double kWidest = 1e7, kMostExperts = 100'000, kMostRedundant = 100'000;

namespace {

const Description& mla_fields() {
  static const Description all = describe<Mla>(
      {},
      field<&Mla::query_rank>("query_rank", whole(1, kWidest), {[](const Mla&) -> std::int64_t { return 0; }, "none"},
                              "rank of the query projection; if absent, one matrix product computes the queries"),
      field<&Mla::kv_rank>("kv_rank", whole(1, kWidest), kRequired, "rank of the joint projection of keys and values"),
      field<&Mla::rotary_dim>(
          "rotary_dim", whole(1, kWidest), kRequired,
          "columns per head that carry the rotary position, in the queries and in the one shared key"),
      field<&Mla::head_dim>("head_dim", whole(1, kWidest), kRequired,
                            "columns per head of queries and keys without position"),
      field<&Mla::value_dim>("value_dim", whole(1, kWidest), kRequired, "columns per head of the values"));
  return all;
}

// Of one layer. `own`: what a model says at its top for all layers, the layer may say for itself.
Description mixer_fields(bool own) {
  using M = Mixer;
  const auto top = [own]<class Field>(Field member) -> Field {
    if (own) return member;
    return settled(std::move(member));
  };
  return describe<M>(
      {}, top(field<&M::heads>("heads", whole(1, 1'000'000), kDefault, "of attention, or of the values of a state")),
      top(field<&M::kv_heads>("kv_heads", whole(1, 1'000'000), kDefault,
                              "of keys and values, or of the keys of a state")),
      top(field<&M::head_dim>("head_dim", whole(1, kWidest), kDefault, "columns of a head's queries and keys")),
      aside<&M::mla>("as the model has it"),
      top(choice<&M::kind>(
          "kind",
          {{"attention", MixerKind::attention},
           {"mla", MixerKind::attention},
           {"linear", MixerKind::delta},
           {"delta", MixerKind::delta},
           {"mamba2", MixerKind::mamba2},
           {"lightning", MixerKind::lightning},
           {"none", MixerKind::none}},
          kDefault,
          "linear: the gated delta rule; lightning: linear attention with a decay; these and mamba2 keep a "
          "state and look at no earlier token")),
      field<&M::value_columns>("value_dim", whole(0, kWidest), kDefault,
                               "columns per head of the values, if not `head_dim`"),
      field<&M::window>("window", whole(0, 1e9), kDefault,
                        "keys that a query attends to, counted back from itself; 0: all"),
      field<&M::chunk>("chunk", whole(0, 1e9), kDefault, "tokens attend within chunks of this many; 0: to all"),
      field<&M::sparse>("sparse", whole(0, 1e9), kDefault,
                        "keys that a query attends to, picked by an indexer's scores; 0: all"),
      field<&M::index_heads>("index_heads", whole(0, 100'000), kDefault, "heads of the indexer of sparse attention"),
      field<&M::index_dim>("index_dim", whole(0, 100'000), kDefault, "columns per indexer head"),
      field<&M::gate>("gate", boolean(), kDefault,
                      "the output passes a sigmoid gate that is computed from the layer's input"),
      field<&M::sinks>("sinks", boolean(), kDefault, "each head has one extra, learned score (an attention sink)"),
      field<&M::qk_norm>("qk_norm", boolean(), kDefault, "queries and keys are normalized head by head"),
      field<&M::keys_as_values>("keys_as_values", boolean(), kDefault,
                                "values are the keys before norm and rotation, so no projection computes them"),
      top(field<&M::convolution>("convolution", whole(0, 64), kDefault,
                                 "taps of the short convolution before a state; 0: none")));
}

const Description& mixer_defaults() {
  static const Description all = mixer_fields(false);
  return all;
}

}  // namespace

const Description& layer_mixer() {
  static const Description all = mixer_fields(true);
  return all;
}
const Description& layer_feed_forward() {
  using F = FeedForward;
  static const Description all = describe<F>(
      {},
      settled(choice<&F::kind>("ffn_kind",
                               {{"gelu", FfnKind::gelu},
                                {"swiglu", FfnKind::swiglu},
                                {"geglu", FfnKind::swiglu},
                                {"squared-relu", FfnKind::squared_relu}},
                               kDefault, "")),
      field<&F::width>("width", whole(1, kWidest), kDefault, "of a dense layer"),
      settled(field<&F::experts>("experts", whole(1, kMostExperts), kDefault, "")),
      field<&F::experts_per_token>("experts_per_token", whole(1, kMostExperts), kDefault,
                                   "experts that each token is sent to"),
      field<&F::expert_width>("expert_ffn", whole(1, kWidest), kDefault, "width of one expert"),
      field<&F::shared_width>("shared_ffn", whole(0, kWidest), kDefault, "width of all shared experts together"),
      field<&F::latent>("expert_latent", whole(0, kWidest), kDefault, "columns that experts work on; 0: the layer's"));
  return all;
}

namespace {

const Description& vision_fields() {
  using V = Vision;
  static const Description all = describe<V>(
      {},
      choice<&V::family>("family", {{"gpt", Family::gpt}, {"llama", Family::llama}}, kDefault,
                         "gpt: layers with layer norms and biases; llama: with RMS norms, without biases"),
      field<&V::layers>("layers", whole(1, 1000), kRequired,
                        "layers of the encoder, in which the patches of one picture attend to each other"),
      field<&V::hidden>("hidden", whole(1, kWidest), kRequired, "width between the encoder's layers"),
      field<&V::heads>("heads", whole(1, 1'000'000), kRequired, "attention heads"),
      field<&V::head_dim>("head_dim", whole(1, kWidest),
                          {[](const V& v) { return v.heads > 0 ? v.hidden / v.heads : 0; }, "`hidden` / `heads`"}, ""),
      field<&V::ffn>("ffn", whole(1, kWidest), {[](const V& v) { return 4 * v.hidden; }, "4 x `hidden`"},
                     "width of the feed-forward layer"),
      choice<&V::ffn_kind>("ffn_kind",
                           {{"gelu", FfnKind::gelu}, {"swiglu", FfnKind::swiglu}, {"geglu", FfnKind::swiglu}},
                           {[](const V& v) { return v.family == Family::gpt ? FfnKind::gelu : FfnKind::swiglu; },
                            "gelu of gpt, swiglu of llama"},
                           ""),
      field<&V::qk_norm>("qk_norm", boolean(), kDefault,
                         "with family llama: queries and keys are normalized head by head"),
      field<&V::patch>("patch", whole(1, kWidest), kRequired, "values per patch: pixels x channels x frames"),
      field<&V::positions>("positions", whole(0, 1e9), kDefault,
                           "rows of the learned position table that is added to the patches"),
      field<&V::merge>("merge", whole(1, 10'000), kDefault, "patches that are merged into one row of the model"),
      choice<&V::projector>("projector", {{"mlp", V::Projector::mlp}, {"linear", V::Projector::linear}}, kDefault,
                            "mlp: merged patches are concatenated and pass two matrix products with a GELU between; "
                            "linear: they are averaged and pass one"),
      field<&V::projector_ffn>("projector_ffn", whole(1, kWidest),
                               {[](const V& v) { return v.merged(); }, "`hidden` x `merge`"},
                               "with projector mlp: columns between its two products"),
      field<&V::deepstack>("deepstack", whole(0, 1000), kDefault,
                           "number of extra projectors, fed by inner layers of the encoder, whose rows are added after "
                           "the model's first layers"),
      field<&V::tokens>("tokens", whole(1, 1e9), kRequired, "rows per sequence that come from pictures"),
      field<&V::picture_tokens>("picture_tokens", whole(1, 1e9), {[](const V& v) { return v.tokens; }, "`tokens`"},
                                "rows per picture"),
      field<&V::frozen>("frozen", boolean(), kDefault, "the encoder and its projector are not trained"));
  return all;
}

// Every value of the runs, for the digest.
std::string said(const std::vector<LayerTable::Row>& runs) {
  std::string text;
  const auto add = [&](const Description& description, const void* object) {
    for (const auto& field : description.fields) text += field.key + "=" + written(field.get(object)) + ";";
  };
  for (const auto& [layer, count] : runs) {
    text += std::to_string(count) + ":";
    add(layer_mixer(), &layer.mixer), add(layer_feed_forward(), &layer.ffn);
  }
  return text;
}

}  // namespace

const Description& model_fields() {
  using T = Transformer;
  static const auto is_mlp = [](const T& m) { return m.family == Family::mlp; };
  static const auto none = [](const T&) -> std::int64_t { return 0; };
  static const Description all = describe<T>(
      {.groups = {{.key = "mla",
                   .help = "multi-head latent attention (DeepSeek); instead of `kv_heads` and `head_dim`"},
                  {.key = "vision",
                   .help = "a vision encoder (ViT, LLaVA) whose output rows join the text; it runs on the first stage, "
                           "before its layers"},
                  {.key = "mixer",
                   .help = "how tokens attend to each other, in every layer that does not set its own"}}},
      nested<&T::mixing>("mixer", mixer_defaults()), settled(field<&T::name>("name", text(), kDefault, "")),
      choice<&T::family>("family",
                         {{"gpt", Family::gpt},
                          {"llama", Family::llama},
                          {"hybrid", Family::llama},
                          {"moe", Family::moe},
                          {"u-transformer", Family::u_transformer},
                          {"mlp", Family::mlp}},
                         kRequired,
                         "moe: llama with experts; hybrid: llama by another name, with a `pattern`; u-transformer: gpt "
                         "with skip connections from each layer of the "
                         "first half to its mirror image in the second; mlp: this program's own kernels only"),
      or_also(field<&T::layers>("layers", whole(1, 100'000), kRequired,
                                "a number; or a list of runs {repeat: N, mixer: {...}, ffn: {...}} or {repeat: N, "
                                "layers: [...]}; a run takes from the model what it does not set"),
              {list_of(table("runs of layers"))}),
      settled(opaque<&T::listed>("listed_layers", "runs of layers", said, "")),
      field<&T::hidden>("hidden", whole(1, kWidest), kRequired, "width between layers"),
      field<&T::heads>("heads", whole(1, 1'000'000), {none, "required; an mlp has none"}, "attention heads"),
      nested<&T::mla>("mla", mla_fields()), nested<&T::vision>("vision", vision_fields()),
      field<&T::kv_heads>("kv_heads", whole(1, 1'000'000), {[](const T& m) { return m.heads; }, "`heads`"},
                          "heads of keys and values; fewer than `heads`: grouped-query attention"),
      field<&T::head_dim>("head_dim", whole(1, kWidest),
                          {[](const T& m) { return m.mla     ? m.mixer().score_dim()
                                                   : m.heads ? m.hidden / m.heads
                                                             : 0; },
                           "`hidden` / `heads`"},
                          ""),
      field<&T::ffn>("ffn", whole(1, kWidest), {[](const T& m) { return 4 * m.hidden; }, "4 x `hidden`"},
                     "width of the feed-forward layer"),
      choice<&T::ffn_kind>("ffn_kind",
                           {{"gelu", FfnKind::gelu},
                            {"swiglu", FfnKind::swiglu},
                            {"geglu", FfnKind::swiglu},
                            {"squared-relu", FfnKind::squared_relu}},
                           {[](const T& m) {
                              const bool gated = m.family == Family::llama || m.family == Family::moe;
                              return gated ? FfnKind::swiglu : FfnKind::gelu;
                            },
                            "swiglu of llama and moe, else gelu"},
                           "geglu costs the same as swiglu"),
      field<&T::experts>("experts", whole(1, kMostExperts), {none, "required of moe"}, "experts per layer"),
      field<&T::experts_per_token>("experts_per_token", whole(1, kMostExperts), {none, "required of moe"},
                                   "experts that each token is sent to"),
      field<&T::expert_ffn>("expert_ffn", whole(1, kWidest),
                            {[](const T& m) { return m.is_moe() ? m.ffn : 0; }, "`ffn`"}, "width of one expert"),
      field<&T::shared_experts>("shared_experts", whole(0, kMostExperts), kDefault,
                                "experts that every token is sent to"),
      field<&T::shared_ffn>(
          "shared_ffn", whole(0, kWidest),
          {[](const T& m) { return m.shared_experts * m.expert_ffn; }, "`shared_experts` x `expert_ffn`"},
          "width of all shared experts together"),
      field<&T::expert_latent>(
          "expert_latent", whole(0, kWidest), kDefault,
          "width that the experts work in, with a projection into it and one out of it; 0: `hidden`"),
      field<&T::dense_layers>("dense_layers", whole(0, 100'000), kDefault,
                              "number of first layers without experts, whose feed-forward layer is `ffn` wide"),
      field<&T::mtp_layers>("mtp_layers", whole(0, 1000), kDefault,
                            "multi-token prediction modules, each one layer on top of `layers`"),
      field<&T::vocabulary>(
          "vocabulary", whole(1, 1e9),
          {[](const T& m) -> std::int64_t { return is_mlp(m) ? 0 : 51'200; }, "51200; an mlp has none"}, ""),
      field<&T::sequence>("sequence", whole(1, 1e9),
                          {[](const T& m) -> std::int64_t { return is_mlp(m) ? 1 : 2048; }, "2048; of mlp 1"},
                          "tokens per sequence; with family mlp, rows per sample"),
      field<&T::tie_embeddings>("tie_embeddings", boolean(),
                                {[](const T& m) { return m.family == Family::gpt; }, "true of gpt, else false"},
                                "one matrix for embedding and head"),
      field<&T::learned_positions>(
          "learned_positions", boolean(), kDefault,
          "with family gpt: a learned table of positions is added to the embedding; false: ALiBi"),
      field<&T::embedding_norm>("embedding_norm", boolean(), kDefault,
                                "with family gpt: a layer norm after the embedding"),
      field<&T::encoder>("encoder", boolean(), kDefault,
                         "tokens also attend to later ones: `training.causal` defaults to false"),
      aside<&T::source>("citations move no answer"));
  return all;
}

const Description& expert_fields() {
  using E = ExpertSettings;
  static const Description all = describe<E>(
      {},
      or_word(field<&E::capacity>("capacity", positive(), std::nullopt,
                                  "most tokens that an expert accepts, as a multiple of the mean; the rest are dropped "
                                  "(absent: nothing is dropped)"),
              "dropless"),
      opaque<&E::skew>(
          "skew", "uniform, natural, {zipf: A}, a list of loads or {trace: FILE}",
          [](const Skew& skew) { return skew.text(); },
          "tokens per expert: the same for all (the default, as benchmarks force); as routers with a balancing loss "
          "send them, where the busiest gets 1.62 x the mean; 1/n^A of the busiest for the n-th busiest; a list; or a "
          "file of `rehearse balance`"),
      field<&E::limit_nodes>("limit_nodes", whole(1, 1e6), std::nullopt,
                             "most nodes that one token is sent to (no limit)"),
      choice<&E::dispatch>("dispatch", {{"all-to-all", Dispatch::all_to_all}, {"two-hop", Dispatch::two_hop}}, kDefault,
                           "two-hop: a token crosses the network once per node and is forwarded over NVLink there"),
      choice<&E::balance>(
          "balance", {{"none", ExpertBalance::none}, {"eplb", ExpertBalance::eplb}, {"best", ExpertBalance::best}},
          kDefault, "how experts are placed on GPUs: in order, by EPLB, or by the search of `rehearse balance`"),
      field<&E::redundant>("redundant", whole(0, kMostRedundant), kDefault,
                           "most extra expert replicas; fewer where more would make the step longer; needs `balance`"),
      aside<&E::settled>("whoever looks for the best number says which one is tried"),
      field<&E::every>("every", whole(1, 1e9), std::nullopt, "steps between placements (never again)"));
  return all;
}

}  // namespace rehearsal::models
