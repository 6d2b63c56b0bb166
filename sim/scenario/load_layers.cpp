// `model.layers` as a list: runs of equal layers, which may hold lists themselves.
#include <fmt/format.h>

#include "models/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

using models::FeedForward;
using models::LayerSpec;
using models::Mixer;
using Runs = std::vector<models::LayerTable::Row>;

constexpr std::int64_t kMostLayers = 100'000;
constexpr int kDeepest = 8;

void append(Runs& runs, const Runs& more) {
  for (const auto& row : more)
    if (!runs.empty() && runs.back().spec == row.spec)
      runs.back().count += row.count;
    else
      runs.push_back(row);
}

class LayerList {
 public:
  LayerList(Diagnostics& problems, const models::Transformer& model) : problems_(problems), model_(model) {
    const auto table = models::layer_table(model);
    usual_ = table.rows.empty() ? LayerSpec{} : table.last();
  }

  Runs read(const Node& list, int depth = 0) {
    Runs runs;
    if (depth > kDeepest)
      problems_.error(list.where(),
                      "'layers' is nested too deeply; write it as a list of runs, which may hold lists of layers");
    if (depth > kDeepest) return runs;
    if (list.kind != Node::Kind::sequence || list.items.empty())
      problems_.error(list.where(), "'layers' is a number or a list of runs; found " + describe(list));
    for (const Node* item : list.items) append(runs, run(*item, depth));
    return runs;
  }

 private:
  Runs run(const Node& item, int depth) {
    if (item.kind != Node::Kind::map) {
      problems_.error(item.where(), "a run of 'layers' is a mapping {repeat, mixer, ffn} or {repeat, layers}; found " +
                                        describe(item));
      return {};
    }
    MapReader map(problems_, item, "layers");
    const auto repeat = map.integer("repeat", {1, kMostLayers}, 1);
    Runs once;
    if (const Node* inner = map.find("layers")) {
      once = read(*inner, depth + 1);
    } else {
      LayerSpec layer = usual_;
      if (const Node* node = map.find("mixer")) mixer(*node, layer.mixer);
      if (const Node* node = map.find("ffn")) feed_forward(*node, layer.ffn);
      once.push_back({layer, 1});
    }
    map.finish();
    Runs runs;
    for (std::int64_t i = 0; i < repeat && total_ <= kMostLayers; ++i) {
      for (const auto& row : once) total_ += row.count;
      append(runs, once);
    }
    return runs;
  }

  void mixer(const Node& node, Mixer& mixer) {
    const auto usual = mixer;
    if (node.kind == Node::Kind::map) {
      MapReader map(problems_, node, "mixer");
      map.fill_given(models::layer_mixer(), &mixer);
      map.finish();
    } else if (const auto kind = read_value(problems_, node, "'mixer'", models::layer_mixer().at("kind").form)) {
      models::layer_mixer().at("kind").set(&mixer, *kind);
    }
    if (mixer.kind == models::MixerKind::none) mixer = {.kind = mixer.kind};
    if (mixer.recurrent()) mixer.drop_what_attention_has();
    if (mixer.mla && mixer.keys_as_values)
      problems_.error(node.where(), "'keys_as_values' does not apply to a model with 'mla'; leave it out");
    if (mixer.recurrent() && !(usual == mixer) && mixer.chunk + mixer.window + mixer.sparse > 0)
      problems_.error(
          node.where(),
          "a mixer with a recurrent state sees all earlier tokens; leave 'window', 'chunk' and 'sparse' out");
    if (mixer.sparse > 0 && mixer.index_heads * mixer.index_dim == 0)
      problems_.error(node.where(), "'sparse' needs an indexer: give 'index_heads' and 'index_dim'");
  }
  void feed_forward(const Node& node, FeedForward& ffn) {
    enum class Kind { dense, experts, none };
    static const std::vector<std::string> names{"dense", "experts", "none"};
    auto kind = ffn.has_experts() ? Kind::experts : Kind::dense;
    const auto of_model = [&] { kind == Kind::dense ? dense(ffn) : kind == Kind::none ? void(ffn = {}) : void(); };
    if (node.kind != Node::Kind::map) {
      if (const auto at = read_choice(problems_, node, "'ffn'", names, {})) kind = Kind(*at);
      of_model();
    } else {
      MapReader map(problems_, node, "ffn");
      kind = map.choice<Kind>("kind", {{"dense", Kind::dense}, {"experts", Kind::experts}, {"none", Kind::none}}, {},
                              kind);
      of_model();
      map.fill_given(models::layer_feed_forward(), &ffn);
      map.finish();
    }
    if (kind == Kind::experts && !ffn.has_experts())
      problems_.error(node.where(), "experts need family moe; set 'family' to moe and give 'experts'");
  }
  void dense(FeedForward& ffn) const { ffn = {.kind = model_.ffn_kind, .width = model_.ffn}; }

  Diagnostics& problems_;
  const models::Transformer& model_;
  LayerSpec usual_;
  std::int64_t total_ = 0;
};

// Megatron's defaults of a Mamba-2 mixer: heads of 64 columns, twice as many columns as the layer has (expand), 8
// groups, a state of 128 (megatron/core/ssm/mamba_mixer.py); heads are a multiple of the groups.
Mixer mamba2(const models::Transformer& model) {
  constexpr std::int64_t kHead = 64, kGroups = 8, kState = 128;
  const auto heads = std::max<std::int64_t>(2 * model.hidden / kHead / kGroups, 1) * kGroups;
  return {.heads = heads,
          .kv_heads = kGroups,
          .head_dim = kState,
          .kind = models::MixerKind::mamba2,
          .value_columns = kHead};
}

}  // namespace

void load_pattern(Diagnostics& problems, const Node& text, models::Transformer& model) {
  const auto usual = models::layer_table(model).last();
  Runs runs;
  for (const char letter : text.text) {
    LayerSpec half{.mixer = {.kind = models::MixerKind::none}};
    switch (letter) {
      case 'M':
        half.mixer = mamba2(model);
        break;
      case 'G':
        half.mixer = usual.mixer, half.mixer.kind = models::MixerKind::delta;
        half.mixer.drop_what_attention_has();
        break;
      case '*':
        half.mixer = usual.mixer;
        break;
      case '-':
        half.ffn = {.kind = model.ffn_kind, .width = model.ffn};
        break;
      case 'E':
        half.ffn = usual.ffn;
        if (!half.ffn.has_experts())
          problems.error(text.where(), "'E' is a layer of experts; set 'family' to moe and give 'experts'");
        break;
      default:
        problems.error(text.where(), fmt::format("'pattern' may hold only M, G, *, - and E; found '{}'", letter));
        return;
    }
    append(runs, {{half, 1}});
  }
  if (runs.empty()) return problems.error(text.where(), "'pattern' has no layers");
  model.layers = std::int64_t(text.text.size());
  model.listed = std::move(runs);
}

void load_layers(Diagnostics& problems, const Node& list, models::Transformer& model) {
  auto runs = LayerList(problems, model).read(list);
  std::int64_t all = 0;
  for (const auto& row : runs) all += row.count;
  if (all > kMostLayers)
    problems.error(list.where(), fmt::format("'layers' are more than {}, which is the most", kMostLayers));
  model.layers = std::max<std::int64_t>(all, 1);
  model.listed = std::move(runs);
}

}  // namespace rehearsal::scenario
