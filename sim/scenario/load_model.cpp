#include <fmt/format.h>

#include "models/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// hidden -> ffn -> hidden in every layer, on rows of numbers: no attention, no tokens, no embedding and no head.
void check_mlp(MapReader& map, const models::Transformer& model) {
  for (const char* key : {"heads", "kv_heads", "head_dim", "vocabulary", "tie_embeddings", "mla", "mtp_layers"})
    if (map.given(key))
      map.problems().error(
          map.at(key),
          fmt::format("'{}' does not apply to family 'mlp', which has neither attention nor tokens; leave it out",
                      key));
  if (model.ffn_kind != models::FfnKind::gelu)
    map.problems().error(map.at("ffn_kind"), "'ffn_kind' of family 'mlp' is always gelu; leave it out");
}

void check_heads(MapReader& map, const models::Transformer& model) {
  auto& problems = map.problems();
  if (model.heads % model.kv_heads != 0)
    problems.error(map.at("kv_heads"),
                   fmt::format("'kv_heads' {} must divide 'heads' {}", model.kv_heads, model.heads));
  if (!map.given("head_dim") && !model.mla && model.hidden % model.heads != 0)
    problems.error(map.at("heads"),
                   fmt::format("'heads' {} must divide 'hidden' {}, or give 'head_dim'", model.heads, model.hidden));
}

// Keys that models with experts require and no others may have.
void check_experts(MapReader& map, const models::Transformer& model) {
  auto& problems = map.problems();
  const bool moe = model.family == models::Family::moe;
  for (const char* key :
       {"experts", "experts_per_token", "expert_ffn", "shared_experts", "shared_ffn", "dense_layers", "expert_latent"})
    if (!moe && map.given(key))
      problems.error(map.at(key),
                     fmt::format("'{}' is a key of family moe; leave it out, or set 'family' to moe", key));
  if (!moe) return;
  map.require("experts", "a whole number from 1 to 100000");
  map.require("experts_per_token", "a whole number from 1 to 100000");
  if (!map.given("experts") || !map.given("experts_per_token")) return;
  if (model.experts_per_token > model.experts)
    problems.error(map.at("experts_per_token"),
                   fmt::format("'experts_per_token' {} exceeds the number of 'experts', {}; set it to at most {}",
                               model.experts_per_token, model.experts, model.experts));
  const Node* layers = map.given("layers") ? map.find("layers") : nullptr;
  const bool listed = layers && layers->kind == Node::Kind::sequence;
  if (listed && map.given("dense_layers"))
    problems.error(map.at("dense_layers"),
                   "with a list of 'layers', leave 'dense_layers' out and write {repeat: N, ffn: dense} there");
  if (!listed && model.dense_layers >= model.layers)
    problems.error(map.at("dense_layers"),
                   fmt::format("'dense_layers' {} leaves none of the {} layers to experts; set it to at most {}",
                               model.dense_layers, model.layers, model.layers - 1));
  if (map.given("ffn") && map.given("expert_ffn") && model.dense_layers == 0 && !listed)
    problems.warn(map.at("ffn"), "'ffn' changes nothing: no layer is dense ('dense_layers' is 0)");
  if (map.given("shared_experts") && map.given("shared_ffn"))
    problems.warn(map.at("shared_experts"), "'shared_experts' changes nothing where 'shared_ffn' is given");
}

void check_ends(MapReader& map, const models::Transformer& model) {
  for (const char* key : {"learned_positions", "embedding_norm"})
    if (!model.is_gpt() && map.given(key))
      map.problems().error(map.at(key),
                           fmt::format("'{}' is a key of families gpt and u-transformer; leave it out", key));
}

void check_latent(MapReader& map, const models::Transformer& model) {
  const bool rotary = model.family == models::Family::llama || model.family == models::Family::moe;
  for (const char* key : {"mla", "mtp_layers"})
    if (!rotary && model.family != models::Family::mlp && map.given(key))
      map.problems().error(map.at(key), fmt::format("'{}' is a key of families llama and moe; leave it out", key));
  for (const char* key : {"kv_heads", "head_dim"})
    if (model.mla && map.given(key))
      map.problems().error(
          map.at(key),
          fmt::format("'{}' does not apply to a model with 'mla', which builds all heads from one latent; leave it out",
                      key));
}

// Windows and the like are of layers with rotary positions, as frameworks have them.
void check_mixer(MapReader& map, const models::Transformer& model) {
  auto& problems = map.problems();
  const auto& mixer = model.mixing;
  const bool rotary = model.family == models::Family::llama || model.family == models::Family::moe;
  if (!rotary && map.given("mixer"))
    problems.error(map.at("mixer"), "'mixer' is a key of families llama and moe; leave it out");
  if ((mixer.window > 0) + (mixer.chunk > 0) + (mixer.sparse > 0) > 1)
    problems.error(map.at("mixer"),
                   "'window', 'chunk' and 'sparse' each say which keys a query sees; give only one of them");
  if (mixer.sparse > 0 && mixer.index_heads * mixer.index_dim == 0)
    problems.error(map.at("mixer"), "'sparse' needs an indexer: give 'index_heads' and 'index_dim'");
  if (model.mla && (mixer.value_columns > 0 || mixer.qk_norm || mixer.keys_as_values))
    problems.error(map.at("mixer"),
                   "'value_dim', 'qk_norm' and 'keys_as_values' do not apply to a model with 'mla'; leave them out");
  if (mixer.keys_as_values && mixer.value_columns > 0)
    problems.error(map.at("mixer"), "with 'keys_as_values', values are as wide as keys; leave 'value_dim' out");
}

void check_vision(MapReader& map, const models::Transformer& model) {
  if (!model.vision) return;
  auto& problems = map.problems();
  const auto& v = *model.vision;
  if (model.family == models::Family::mlp || model.family == models::Family::u_transformer)
    problems.error(map.at("vision"), "'vision' is a key of families gpt, llama and moe; leave it out");
  if (v.qk_norm && v.family == models::Family::gpt)
    problems.error(map.at("vision"),
                   "'vision.qk_norm' is a key of family llama; leave it out, or set 'vision.family' to llama");
  if (v.projector == models::Vision::Projector::linear && v.projector_ffn != v.merged())
    problems.error(map.at("vision"), "'vision.projector_ffn' needs 'projector: mlp'; leave it out");
  if (v.tokens > model.sequence)
    problems.error(map.at("vision"),
                   fmt::format("'vision.tokens' {} exceed the {} tokens of a sequence; set at most {}", v.tokens,
                               model.sequence, model.sequence));
  if (v.picture_tokens > v.tokens)
    problems.error(map.at("vision"),
                   fmt::format("'vision.picture_tokens' {} exceed 'vision.tokens', {}; set at most as many",
                               v.picture_tokens, v.tokens));
}

// `sliding_window` of configurations that say elsewhere which layers have one.
void set_window(models::Transformer& model, std::int64_t width) {
  bool some = false;
  for (auto& row : model.listed)
    if (row.spec.mixer.window > 0) row.spec.mixer.window = width, some = true;
  if (some) return;
  model.mixing.window = width;
  for (auto& row : model.listed)
    if (row.spec.mixer.kind == models::MixerKind::attention) row.spec.mixer.window = width;
}

}  // namespace

std::optional<models::Transformer> load_model(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, "models/zoo", "model");
  if (!part.node) return std::nullopt;

  MapReader map(problems, part.node, "model", node);
  models::Transformer model;
  model.name = part.name;
  for (const char* key : kAbout) map.find(key);
  model.source = map.text("source", "");
  if (map.given("mla")) model.mla.emplace();
  if (map.given("vision")) model.vision.emplace();
  const Node* listed = map.given("layers") ? map.find("layers") : nullptr;
  if (listed && listed->kind != Node::Kind::sequence) listed = nullptr;
  const Node* pattern = map.find("pattern");
  const auto window = map.integer("sliding_window", {1, 1'000'000'000}, 0);
  if (listed || (pattern && !map.given("layers")))
    map.fill(models::model_fields(), &model, {"layers"}), model.layers = 1;
  else
    map.fill(models::model_fields(), &model);
  const bool mlp = model.family == models::Family::mlp;
  if (mlp)
    check_mlp(map, model);
  else
    map.require("heads", "a whole number from 1 to 1000000");
  check_experts(map, model);
  check_latent(map, model);
  check_mixer(map, model);
  check_ends(map, model);
  check_vision(map, model);
  map.finish();
  if (problems.count() != before) return std::nullopt;
  if (!mlp) check_heads(map, model);
  const auto said = model.layers;
  if (listed) load_layers(problems, *listed, model);
  if (pattern && listed)
    problems.error(pattern->where(),
                   "'layers' as a list and 'pattern' both describe the layers; leave one of them out");
  else if (pattern)
    load_pattern(problems, *pattern, model);
  if (pattern && map.given("layers") && !listed && said != model.layers)
    problems.warn(map.at("layers"),
                  fmt::format("'layers' is {}, but 'pattern' has {}; the pattern is used", said, model.layers));
  if (window > 0) set_window(model, window);
  if (problems.count() != before) return std::nullopt;
  return model;
}

}  // namespace rehearsal::scenario
