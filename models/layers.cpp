#include "models/layers.hpp"

#include <algorithm>

#include "models/transformer.hpp"

namespace rehearsal::models {

const char* label(const LayerSpec& spec) {
  switch (spec.skip) {
    case SkipEnd::gives:
      return "encoder";
    case SkipEnd::takes:
      return "decoder";
    case SkipEnd::none:
      break;
  }
  return spec.ffn.has_experts() ? "experts" : "dense";
}

void LayerTable::append(const LayerSpec& spec, std::int64_t count) {
  if (count <= 0) return;
  const auto same = [&](const Row& row) { return row.spec == spec; };
  auto row = std::find_if(rows.begin(), rows.end(), same);
  if (row == rows.end()) row = rows.insert(row, {spec, 0});
  row->count += count;
  of_layer.insert(of_layer.end(), std::size_t(count), static_cast<std::uint16_t>(row - rows.begin()));
}

bool LayerTable::all(bool (*holds)(const LayerSpec&)) const {
  return std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return holds(row.spec); });
}

LayerTable layer_table(const Transformer& m) {
  const LayerSpec dense{{m.heads, m.kv_heads, m.head_dim, m.mla}, {m.ffn_kind, m.ffn}};
  auto experts = dense, encoder = dense, decoder = dense;
  experts.ffn = {m.ffn_kind, 0, m.experts, m.experts_per_token, m.expert_ffn, m.shared_ffn};
  encoder.skip = SkipEnd::gives, decoder.skip = SkipEnd::takes;
  LayerTable table;
  table.append(encoder, m.skips());
  table.append(dense, m.is_moe() ? std::min(m.dense_layers, m.layers) : m.layers - 2 * m.skips());
  if (m.is_moe()) table.append(experts, m.layers - m.dense_layers);
  table.append(decoder, m.skips());
  return table;
}

}  // namespace rehearsal::models
