#include "interchange/megatron/layers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearsal::interchange {

namespace {

// "([0]*3+[1]*58)".
std::string frequency_text(const std::vector<int>& marks) {
  std::string text;
  for (std::size_t at = 0; at < marks.size();) {
    std::size_t end = at;
    while (end < marks.size() && marks[end] == marks[at]) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", marks[at], end - at);
    at = end;
  }
  return "(" + text + ")";
}

bool all_equal(const std::vector<int>& marks, int value) {
  return std::all_of(marks.begin(), marks.end(), [value](int mark) { return mark == value; });
}

class MegatronLayerList {
 public:
  explicit MegatronLayerList(const models::Transformer& model) : model_(model) {
    const auto table = models::layer_table(model);
    for (std::int64_t i = 0; i < model.layers && std::size_t(i) < table.of_layer.size(); ++i)
      layers_.push_back(table.rows[table.of_layer[std::size_t(i)]].spec);
    usual_ = megatron_attention(model);
  }

  MegatronLayers say() {
    const bool halves = std::any_of(layers_.begin(), layers_.end(), [](const models::LayerSpec& layer) {
      return layer.mixer.kind == models::MixerKind::none || layer.ffn.nothing();
    });
    if (halves)
      pattern();
    else
      frequencies();
    return std::move(said_);
  }

 private:
  void add(std::string name, std::string value) { said_.arguments.emplace_back(std::move(name), std::move(value)); }
  void add(std::string name, std::int64_t value) { add(std::move(name), std::to_string(value)); }
  void lack(const models::LayerSpec& layer) {
    const auto what = fmt::format("model.layers: {}, which has no argument beside the others", models::label(layer));
    if (std::find(said_.lacks.begin(), said_.lacks.end(), what) == said_.lacks.end()) said_.lacks.push_back(what);
  }

  // Whether all recurrent layers of a kind are the first of it.
  bool same(const models::Mixer*& first, const models::LayerSpec& layer) {
    if (!first) first = &layer.mixer;
    if (*first == layer.mixer) return true;
    lack(layer);
    return false;
  }

  void delta(const models::Mixer& mixer) {
    add("--linear-num-value-heads", mixer.heads), add("--linear-num-key-heads", mixer.kv_heads);
    add("--linear-key-head-dim", mixer.head_dim), add("--linear-value-head-dim", mixer.value_dim());
    add("--linear-conv-kernel-dim", mixer.convolution);
  }

  void pattern() {
    std::string text;
    const models::Mixer *mamba = nullptr, *linear = nullptr;
    for (const auto& layer : layers_) {
      const auto kind = layer.mixer.kind;
      if ((kind != models::MixerKind::none) == !layer.ffn.nothing()) {
        lack(layer);
        continue;
      }
      if (kind == models::MixerKind::mamba2)
        same(mamba, layer), text += 'M';
      else if (kind == models::MixerKind::delta)
        same(linear, layer), text += 'G';
      else if (kind == models::MixerKind::attention)
        text += '*';
      else if (kind == models::MixerKind::none)
        text += layer.ffn.has_experts() ? 'E' : '-';
      else
        lack(layer);
      if (kind == models::MixerKind::attention && !(layer.mixer == usual_)) lack(layer);
    }
    said_.pattern = text;
    if (mamba) {
      add("--mamba-num-heads", mamba->heads), add("--mamba-head-dim", mamba->value_dim());
      add("--mamba-num-groups", mamba->kv_heads), add("--mamba-state-dim", mamba->head_dim);
    }
    if (linear) delta(*linear);
  }

  void frequencies() {
    add("--num-layers", model_.layers);
    std::vector<int> experts, linear, window;
    const models::Mixer* state = nullptr;
    std::int64_t width = 0;
    for (const auto& layer : layers_) {
      experts.push_back(layer.ffn.has_experts()), linear.push_back(layer.mixer.kind == models::MixerKind::delta);
      window.push_back(layer.mixer.window > 0);
      if (layer.mixer.window > 0 && width > 0 && layer.mixer.window != width) lack(layer);
      if (layer.mixer.window > 0) width = layer.mixer.window;
      auto mixer = layer.mixer;
      mixer.window = usual_.window;
      if (linear.back())
        same(state, layer);
      else if (!(mixer == usual_))
        lack(layer);
    }
    if (model_.is_moe() && !all_equal(experts, 1)) add("--moe-layer-freq", frequency_text(experts));
    if (state) {
      add("--experimental-attention-variant", "gated_delta_net"),
          add("--linear-attention-freq", frequency_text(linear));
      delta(*state);
    }
    if (width > 0) {
      add("--window-size", fmt::format("{},0", width - 1));
      if (!all_equal(window, 1)) add("--window-attn-skip-freq", frequency_text(window));
    }
  }

  const models::Transformer& model_;
  std::vector<models::LayerSpec> layers_;
  models::Mixer usual_;
  MegatronLayers said_;
};

}  // namespace

models::Mixer megatron_attention(const models::Transformer& model) {
  auto usual = model.mixer();
  for (const auto& row : model.listed)
    if (row.spec.mixer.kind == models::MixerKind::attention) {
      usual = row.spec.mixer, usual.window = model.mixing.window;
      break;
    }
  return usual;
}

MegatronLayers megatron_layers(const models::Transformer& model) { return MegatronLayerList(model).say(); }

}  // namespace rehearsal::interchange
