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

// delta: the gated delta rule (2412.06464, section 3); mamba2: state-space duality (2405.21060, section 6); lightning:
// linear attention with a decay (2401.04658). These three keep a state of head_dim x value_dim for each head.
enum class MixerKind : std::uint8_t { attention, delta, mamba2, lightning, none };

// How tokens see each other. The heads of a recurrent mixer are those of its values; kv_heads are its key heads, or
// groups.
struct Mixer {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<Mla> mla{};
  MixerKind kind = MixerKind::attention;
  std::int64_t value_columns = 0;  // of a head, where they are not `head_dim`
  // Of attention, the keys that a query sees: the last `window`, itself included; those of its own chunk; or the
  // `sparse` ones that an indexer of `index_heads` heads scores highest (DeepSeek-V3.2, 2512.02556, section 2.1). 0:
  // all.
  std::int64_t window = 0, chunk = 0, sparse = 0, index_heads = 0, index_dim = 0;
  // Results pass a sigmoid gate; each head has a sink beside its scores; queries and keys are normed.
  bool gate = false, sinks = false, qk_norm = false;
  bool keys_as_values = false;   // no product makes values: they are the keys before their norm and their rotation
  std::int64_t convolution = 4;  // of a recurrent mixer: taps of the short convolution before it; 0: none
  bool operator==(const Mixer&) const = default;

  void drop_what_attention_has() { mla.reset(), gate = sinks = qk_norm = keys_as_values = false; }
  bool recurrent() const { return kind != MixerKind::attention && kind != MixerKind::none; }
  // Columns of a head in the product of queries and keys, and in that with the values.
  std::int64_t score_dim() const { return mla ? mla->head_dim + mla->rotary_dim : head_dim; }
  std::int64_t value_dim() const { return mla ? mla->value_dim : value_columns > 0 ? value_columns : head_dim; }
  // Of a recurrent mixer: columns of all keys, and of all values.
  std::int64_t keys() const { return kv_heads * head_dim; }
  std::int64_t values() const { return heads * value_dim(); }
  std::int64_t seen_at_most() const { return window > 0 ? window : sparse; }
  bool sees_part() const { return chunk + seen_at_most() > 0; }
};

// What happens to each token by itself: one network of `width`, or `experts` of width `expert_width`, of which a token
// uses `experts_per_token`, beside shared ones that every token uses, `shared_width` wide in all. Experts may work on
// `latent` columns instead of the layer's. Without either, nothing.
struct FeedForward {
  FfnKind kind = FfnKind::gelu;
  std::int64_t width = 0;
  std::int64_t experts = 0, experts_per_token = 0, expert_width = 0, shared_width = 0, latent = 0;
  bool operator==(const FeedForward&) const = default;

  bool has_experts() const { return experts > 0; }
  bool nothing() const { return width == 0 && experts == 0; }
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
// "dense", "experts", "encoder", "window 128, experts", "mamba2".
std::string label(const LayerSpec& spec);

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
};

struct Transformer;
// The table of a model's family. A module of multi-token prediction holds one more layer like the last.
LayerTable layer_table(const Transformer& model);

}  // namespace rehearsal::models
