#include <fmt/format.h>

#include "models/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// hidden -> ffn -> hidden in every layer, on rows of numbers: no attention, no tokens, nothing at the ends.
void check_mlp(MapReader& map, const models::Transformer& model) {
  for (const char* key : {"heads", "kv_heads", "head_dim", "vocabulary", "tie_embeddings", "experts",
                          "experts_per_token", "shared_experts", "expert_ffn", "dense_layers", "mla"})
    if (map.given(key))
      map.problems().error(
          map.at(key),
          fmt::format("'{}' has no meaning for family 'mlp', which has neither attention nor tokens", key));
  if (model.ffn_kind == models::FfnKind::swiglu)
    map.problems().error(map.at("ffn_kind"),
                         "'swiglu' for 'ffn_kind' is not built yet; what is: gelu");
}

void check_heads(MapReader& map, const models::Transformer& model) {
  auto& problems = map.problems();
  if (model.heads % model.kv_heads != 0)
    problems.error(map.at("kv_heads"),
                   fmt::format("'kv_heads' {} must divide 'heads' {}", model.kv_heads, model.heads));
  if (!map.given("head_dim") && model.hidden % model.heads != 0)
    problems.error(map.at("heads"),
                   fmt::format("'heads' {} must divide 'hidden' {}, or give 'head_dim'", model.heads, model.hidden));
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
  map.fill(models::model_fields(), &model);
  const bool mlp = model.family == models::Family::mlp;
  if (mlp)
    check_mlp(map, model);
  else
    map.require("heads", "a whole number from 1 to 1000000");
  map.finish();
  if (problems.count() != before) return std::nullopt;
  if (!mlp) check_heads(map, model);
  if (problems.count() != before) return std::nullopt;
  return model;
}

}  // namespace rehearsal::scenario
