// The layers of a network as data: a layer is a mixer of tokens, a feed-forward part and perhaps an end of a skip
// connection. A model is a table of the distinct ones and says which of them each layer is; the families are names for
// tables (layers.cpp).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rehearsal::models {

// squared_relu: max(x, 0)^2 (Primer, 2109.08668; Nemotron-4), which frameworks leave to torch, operation by operation.
enum class FfnKind : std::uint8_t { gelu, swiglu, squared_relu };

// Multi-head latent attention (DeepSeek-V2, 2405.04434, section 2.1): queries, and keys with values, pass through a
// narrow product each. A head has `head_dim` columns without position and `rotary_dim` with; the rotary key is one for
// all heads.
struct Mla {
  std::int64_t query_rank = 0;  // 0: queries in one product
  std::int64_t kv_rank = 0, rotary_dim = 0, head_dim = 0, value_dim = 0;
  bool operator==(const Mla&) const = default;
};

// How tokens see each other: attention with grouped keys and values, or latent attention. Without heads, not at all.
struct Mixer {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<Mla> mla{};
  bool operator==(const Mixer&) const = default;

  // Columns of a head in the product of queries and keys, and in that with the values.
  std::int64_t score_dim() const { return mla ? mla->head_dim + mla->rotary_dim : head_dim; }
  std::int64_t value_dim() const { return mla ? mla->value_dim : head_dim; }
};

// What happens to each token by itself: one network of `width`, or `experts` of width `expert_width`, of which a token
// uses `experts_per_token`, beside shared ones that every token uses, `shared_width` wide in all.
struct FeedForward {
  FfnKind kind = FfnKind::gelu;
  std::int64_t width = 0;
  std::int64_t experts = 0, experts_per_token = 0, expert_width = 0, shared_width = 0;
  bool operator==(const FeedForward&) const = default;

  bool has_experts() const { return experts > 0; }
  bool gated() const { return kind == FfnKind::swiglu; }
  std::int64_t up_projections() const { return gated() ? 2 : 1; }
};

// A layer may give what it makes to a skip connection, or take what another layer gave.
enum class SkipEnd : std::uint8_t { none, gives, takes };

struct LayerSpec {
  Mixer mixer{};
  FeedForward ffn{};
  SkipEnd skip = SkipEnd::none;
  bool operator==(const LayerSpec&) const = default;
};
// "dense", "experts", "encoder" or "decoder".
const char* label(const LayerSpec& spec);

// The distinct layers in the order in which they appear, how many there are of each, and which one each layer is.
struct LayerTable {
  struct Row {
    LayerSpec spec;
    std::int64_t count = 0;
  };
  std::vector<Row> rows;
  std::vector<std::uint16_t> of_layer;  // index into `rows`

  void append(const LayerSpec& spec, std::int64_t count);
  const LayerSpec& last() const { return rows[of_layer.back()].spec; }
  bool all(bool (*holds)(const LayerSpec&)) const;
};

struct Transformer;
// The table of a model's family. A module of multi-token prediction holds one more layer like the last.
LayerTable layer_table(const Transformer& model);

}  // namespace rehearsal::models
