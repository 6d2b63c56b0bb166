#include <fmt/format.h>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr IntegerRange kLayers{1, 100'000}, kWidth{1, 10'000'000};

// hidden -> ffn -> hidden in every layer, on rows of numbers: no attention, no tokens, nothing at the ends.
void read_mlp(MapReader& map, models::Transformer& model) {
  using models::FfnKind;
  model.ffn = map.integer("ffn", kWidth, 4 * model.hidden);
  model.ffn_kind = map.choice<FfnKind>("ffn_kind", {{"gelu", FfnKind::gelu}}, {"swiglu"}, FfnKind::gelu);
  model.sequence = map.integer("sequence", kCount, 1);
  model.tie_embeddings = false;
  for (const char* key : {"heads", "kv_heads", "head_dim", "vocabulary", "tie_embeddings", "experts",
                          "experts_per_token", "shared_experts", "expert_ffn", "dense_layers", "mla"})
    if (map.find(key))
      map.problems().error(
          map.at(key),
          fmt::format("'{}' has no meaning for family 'mlp', which has neither attention nor tokens", key));
  map.finish();
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
  map.find("use"), map.find("name"), map.find("summary");
  model.source = map.text("source", "");
  using models::Family, models::FfnKind;
  model.family = map.choice<Family>("family", {{"gpt", Family::gpt}, {"llama", Family::llama}, {"mlp", Family::mlp}},
                                    {"moe", "u-transformer"});
  model.layers = map.integer("layers", kLayers);
  model.hidden = map.integer("hidden", kWidth);
  if (model.family == Family::mlp) {
    read_mlp(map, model);
    if (problems.count() != before) return std::nullopt;
    return model;
  }
  model.heads = map.integer("heads", {1, 1'000'000});
  model.kv_heads = map.integer("kv_heads", {1, 1'000'000}, model.heads);
  const auto head_dim = map.optional_integer("head_dim", kWidth);
  model.ffn = map.integer("ffn", kWidth, 4 * model.hidden);
  model.ffn_kind = map.choice<FfnKind>("ffn_kind", {{"gelu", FfnKind::gelu}, {"swiglu", FfnKind::swiglu}}, {},
                                       model.family == Family::llama ? FfnKind::swiglu : FfnKind::gelu);
  model.vocabulary = map.integer("vocabulary", kCount, 51'200);
  model.sequence = map.integer("sequence", kCount, 2048);
  model.tie_embeddings = map.boolean("tie_embeddings", model.family == Family::gpt);
  for (const char* key : {"experts", "experts_per_token", "shared_experts", "expert_ffn", "dense_layers", "mla"})
    map.unbuilt(key, "", "mixture-of-experts and latent-attention models are");
  map.finish();
  if (problems.count() != before) return std::nullopt;

  if (model.heads % model.kv_heads != 0)
    problems.error(map.at("kv_heads"),
                   fmt::format("'kv_heads' {} must divide 'heads' {}", model.kv_heads, model.heads));
  if (!head_dim && model.hidden % model.heads != 0)
    problems.error(map.at("heads"),
                   fmt::format("'heads' {} must divide 'hidden' {}, or give 'head_dim'", model.heads, model.hidden));
  model.head_dim = head_dim.value_or(model.hidden / model.heads);
  if (problems.count() != before) return std::nullopt;
  return model;
}

}  // namespace rehearsal::scenario
