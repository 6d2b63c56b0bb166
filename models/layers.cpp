#include "models/layers.hpp"

#include <algorithm>

#include "models/transformer.hpp"

namespace rehearsal::models {

namespace {

std::string mixer_label(const Mixer& mixer) {
  switch (mixer.kind) {
    case MixerKind::delta:
      return "delta";
    case MixerKind::mamba2:
      return "mamba2";
    case MixerKind::lightning:
      return "lightning";
    case MixerKind::none:
      return "no mixer";
    case MixerKind::attention:
      break;
  }
  if (mixer.window > 0) return "window " + std::to_string(mixer.window);
  if (mixer.chunk > 0) return "chunk " + std::to_string(mixer.chunk);
  if (mixer.sparse > 0) return "sparse " + std::to_string(mixer.sparse);
  return {};
}

}  // namespace

std::string label(const LayerSpec& spec) {
  if (spec.skip != SkipEnd::none) return spec.skip == SkipEnd::gives ? "encoder" : "decoder";
  const std::string mixer = mixer_label(spec.mixer);
  if (spec.ffn.nothing()) return mixer.empty() ? "attention" : mixer;
  const std::string ffn = spec.ffn.has_experts() ? "experts" : "dense";
  return mixer.empty() ? ffn : mixer + ", " + ffn;
}

void LayerTable::append(const LayerSpec& spec, std::int64_t count) {
  if (count <= 0) return;
  const auto same = [&](const Row& row) { return row.spec == spec; };
  auto row = std::find_if(rows.begin(), rows.end(), same);
  if (row == rows.end()) row = rows.insert(row, {spec, 0});
  row->count += count;
  of_layer.insert(of_layer.end(), std::size_t(count), static_cast<std::uint16_t>(row - rows.begin()));
}

LayerTable layer_table(const Transformer& m) {
  const LayerSpec dense{m.mixer(), {m.ffn_kind, m.ffn}};
  auto experts = dense, encoder = dense, decoder = dense;
  experts.ffn = {m.ffn_kind, 0, m.experts, m.experts_per_token, m.expert_ffn, m.shared_ffn, m.expert_latent};
  encoder.skip = SkipEnd::gives, decoder.skip = SkipEnd::takes;
  LayerTable table;
  for (const auto& run : m.listed) table.append(run.spec, run.count);
  if (!m.listed.empty()) return table;
  table.append(encoder, m.skips());
  table.append(dense, m.is_moe() ? std::min(m.dense_layers, m.layers) : m.layers - 2 * m.skips());
  if (m.is_moe()) table.append(experts, m.layers - m.dense_layers);
  table.append(decoder, m.skips());
  return table;
}

}  // namespace rehearsal::models
