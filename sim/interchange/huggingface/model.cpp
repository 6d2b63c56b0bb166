// Sizes, heads and ends of a model.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/huggingface/config.hpp"
#include "interchange/runs.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;
constexpr std::int64_t kMostLayers = 100'000;

// A count without which there is no model.
Said<std::int64_t> needed(Keys& keys, Keys::Names names, const char* what) {
  if (auto said = keys.integer(names)) return *said;
  throw UserError(
      {{keys.map()->where(), fmt::format("'{}{}' ({}) is missing; without it there is no model. Give the whole "
                                         "config.json, as it lies beside the weights",
                                         keys.path(), *names.begin(), what)}});
}

void read_latent_attention(Keys& keys, HfLayers& layers) {
  auto& draft = keys.draft();
  const auto rank = keys.integer({"kv_lora_rank"});
  if (!rank) return;
  layers.latent = true;
  draft.say("model.mla.kv_rank", rank->value, *rank->at, rank->word);
  keys.say_integer("model.mla.query_rank", {"q_lora_rank"});
  const auto rotary = needed(keys, {"qk_rope_head_dim"}, "columns of a head with the position");
  draft.say("model.mla.rotary_dim", rotary.value, *rotary.at, rotary.word);
  const auto plain = needed(keys, {"qk_nope_head_dim"}, "columns of a head without the position");
  draft.say("model.mla.head_dim", plain.value, *plain.at, plain.word);
  const auto value = needed(keys, {"v_head_dim"}, "columns of a head's values");
  draft.say("model.mla.value_dim", value.value, *value.at, value.word);
  // With one latent for all heads these say nothing: deepseek-ai/DeepSeek-V3 has as many key heads as heads, GLM-5 a
  // head_dim of the rotary part alone.
  keys.ignore({"num_key_value_heads", "head_dim", "qk_head_dim"});
}

void read_heads(Keys& keys, const HfType& type, HfLayers& layers) {
  auto& draft = keys.draft();
  const auto heads = needed(keys, {"num_attention_heads", "n_head", "n_heads", "num_heads"}, "attention heads");
  layers.heads = heads.value;
  draft.say("model.heads", heads.value, *heads.at, heads.word);
  read_latent_attention(keys, layers);
  if (layers.latent) return;
  const auto several = keys.boolean({"multi_query"});
  const auto wider = keys.boolean({"new_decoder_architecture"});  // of falcon: num_kv_heads counts only then
  const auto groups = keys.integer({"num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups",
                                    "num_query_groups", "attn_config.kv_n_heads"});
  if (type.name == "falcon" && !(wider && wider->value)) {
    if (!several || several->value) draft.derive("model.kv_heads", 1, "falcon without new_decoder_architecture");
  } else if (groups) {
    draft.say("model.kv_heads", groups->value, *groups->at, groups->word);
  } else if (several ? several->value : type.name == "gpt_bigcode") {
    draft.derive("model.kv_heads", 1, "multi_query");
  }
  keys.say_integer("model.head_dim", {"head_dim", "attention_head_dim"});
}

// Of the feed-forward layer without experts, where all layers have one.
void read_width(Keys& keys, const HfType& type, const HfLayers& layers) {
  auto& draft = keys.draft();
  if (type.name == "mamba2") return;  // no layer has one
  if (keys.say_integer("model.ffn", {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"}))
    return;
  if (const auto ratio = keys.number({"expansion_ratio"}); ratio && ratio->value > 0 && ratio->value < 1000)
    draft.derive("model.ffn", std::int64_t(ratio->value * double(layers.hidden)),
                 fmt::format("d_model {} x expansion_ratio", layers.hidden));
  else if (!type.has(HfType::gpt))
    needed(keys, {"intermediate_size"}, "width of the feed-forward layer");
}

void read_ends(Keys& keys, const HfType& type) {
  auto& draft = keys.draft();
  keys.say(Fact::vocabulary, {"vocab_size", "padded_vocab_size"});
  if (!keys.say_boolean("model.tie_embeddings", {"tie_word_embeddings"}))
    draft.derive("model.tie_embeddings", type.has(HfType::tied),
                 fmt::format("transformers' {} where no file says it", type.name));
  keys.say(Fact::longest, {"max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length",
                           "n_ctx", "max_seq_length"});
  if (!type.has(HfType::gpt)) return;
  const bool table = type.has(HfType::learned);
  if (const auto alibi = keys.boolean({"attn_config.alibi", "alibi"}); alibi && alibi->value)
    draft.say("model.learned_positions", false, *alibi->at, alibi->word);
  else if (const auto learned = keys.boolean({"learned_pos_emb"}))
    draft.say("model.learned_positions", learned->value, *learned->at, learned->word);
  else
    draft.derive(
        "model.learned_positions", table,
        fmt::format("transformers' {} {}", type.name, table ? "adds a table of them" : "has no table of them"));
  if (type.has(HfType::embedding_norm))
    draft.derive("model.embedding_norm", true, fmt::format("transformers' {}", type.name));
  if (type.has(HfType::encoder))
    draft.derive("model.encoder", true, fmt::format("transformers' {}: tokens see later ones", type.name));
}

// Modules of multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2), each a layer like the last one.
void read_modules(Keys& keys, const HfType& type, HfLayers& layers) {
  auto& draft = keys.draft();
  auto modules =
      keys.integer({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers"});
  if (!modules || modules->value <= 0) return;
  layers.modules = modules->value;
  // A module of Nemotron-H holds a mixer and a feed-forward part, which are layers of their own before.
  const auto halves = keys.node({"mtp_hybrid_override_pattern", "mtp_layers_block_type"});
  const auto what = fmt::format("{}: {}", modules->word, modules->value);
  if (halves || type.has(HfType::half_layers))
    draft.no_word(modules->at->where(), what,
                  "modules of a mixer and experts each; a scenario's are like the last layer");
  else if (type.has(HfType::dense_modules))
    draft.no_word(modules->at->where(), what, "dense modules; a scenario's are like the last layer, which has experts");
  else
    draft.say("model.mtp_layers", modules->value, *modules->at, modules->word + "; 0 trains without them");
}

void name_what_has_no_word(Keys& keys, const HfType& type) {
  auto& draft = keys.draft();
  if (const auto bias = keys.boolean({"attention_bias", "qkv_bias"}); bias && bias->value && !type.has(HfType::gpt))
    draft.no_word(bias->at->where(), bias->word + ": true", "biases of llamas are not counted");
  if (const auto bias = keys.boolean({"mlp_bias"}); bias && bias->value)
    draft.no_word(bias->at->where(), bias->word + ": true", "biases of llamas are not counted");
  const auto parallel = keys.boolean({"parallel_attn", "use_parallel_residual"});
  if (parallel ? parallel->value : type.has(HfType::parallel))
    draft.no_word(
        parallel ? parallel->at->where() : keys.map()->where(),
        parallel ? parallel->word + ": true" : "attention and feed-forward part of one norm (" + type.name + ")",
        "taken as one after the other, each with its norm");
  keys.no_word("num_kv_shared_layers", {"0"}, "each layer is taken with keys and values of its own");
  keys.no_word("hidden_size_per_layer_input", {"0"}, "embeddings of each layer are left out");
  keys.no_word("use_double_wide_mlp");
  keys.no_word("use_head_wise_attn_gate", {}, "a gate of a value for each head is left out");
  keys.no_word("attention_types", {}, "windows of a model with layer norms; all tokens are taken");
  keys.no_word("hc_mult", {"1"}, "residual streams; one is taken");
  keys.no_word("num_hash_layers", {"0"}, "layers that choose experts by the token; taken with a router");
  keys.no_word("word_embed_proj_dim", {std::to_string(draft.integer("model.hidden", 0))});
  keys.no_word("swiglu_limit", {"0"},
               "clamps are not counted; framework.fused_expert_activation: false prices a GLU with them");
}

}  // namespace

bool HfLayers::differ() const {
  return std::any_of(each.begin(), each.end(), [](const Json& layer) { return !layer.members().empty(); });
}

std::set<std::string> texts_of(const std::vector<const Node*>& list) {
  std::set<std::string> texts;
  for (const auto* node : list) texts.insert(node->text);
  return texts;
}

std::vector<std::string> HfLayers::entries(const Said<std::vector<const Node*>>& list) const {
  const auto size = list.value.size();
  if (size < count() || size > count() + std::size_t(std::max<std::int64_t>(modules, 0)))
    wrong(*list.at, fmt::format("'{}' has {} entries, and there are {} layers; one of the two is wrong", list.word,
                                size, count()));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count(); ++i) texts.push_back(list.value[i]->text);
  return texts;
}

std::vector<bool> HfLayers::switches(const Said<std::vector<const Node*>>& list) const {
  std::vector<bool> all;
  for (const auto& text : entries(list)) {
    if (text != "0" && text != "1")
      wrong(*list.value[all.size()], fmt::format("'{}' is a list of 0 and 1; found {}", list.word, text));
    all.push_back(text == "1");
  }
  return all;
}

void say_hf_activation(Keys& keys, const HfType& type) {
  const bool gated = !type.has(HfType::gpt) && !type.has(HfType::ungated);
  auto& draft = keys.draft();
  const auto said = keys.text({"hidden_act", "hidden_activation", "mlp_hidden_act", "activation_function", "activation",
                               "ffn_config.ffn_act_fn.name", "ffn_act_fn.name"});
  if (!said) {
    if (type.has(HfType::ungated)) draft.derive("model.ffn_kind", "gelu", "transformers' " + type.name);
    return;
  }
  const auto& word = said->value;
  std::string kind = gated ? "swiglu" : "gelu";
  if (word.starts_with("gelu") || word == "quick_gelu")
    kind = gated ? "geglu" : "gelu";
  else if (!gated && (word == "relu2" || word == "relu_squared"))
    kind = "squared-relu";
  else if (!(gated && (word == "silu" || word == "swish" || word == "swiglu" || word == "swigluoai")))
    draft.no_word(said->at->where(), said->word + ": " + word, "taken as " + kind);
  draft.say("model.ffn_kind", kind, *said->at,
            fmt::format("{} {}, with{} a gate", said->word, word, gated ? "" : "out"));
}

void read_hf_model(Keys& keys, const HfType& type) {
  auto& draft = keys.draft();
  HfLayers layers;
  // Hybrids may say their layers one by one, and no number.
  auto count = keys.integer({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  if (!count)
    if (const auto each = keys.list({"layers_block_type", "layer_types"}))
      count = Said<std::int64_t>{std::int64_t(each->value.size()), each->at, each->word};
  if (!count) count = needed(keys, {"num_hidden_layers"}, "layers");
  if (count->value < 1 || count->value > kMostLayers)
    wrong(*count->at,
          fmt::format("'{}' must be a whole number from 1 to {}; found {}", count->word, kMostLayers, count->value));
  layers.each.assign(std::size_t(count->value), Json::object());
  const auto hidden = needed(keys, {"hidden_size", "n_embd", "d_model", "n_embed", "dim"}, "width between layers");
  layers.hidden = hidden.value;
  draft.say("model.hidden", hidden.value, *hidden.at, hidden.word);
  say_hf_activation(keys, type);
  read_heads(keys, type, layers);
  read_modules(keys, type, layers);
  read_hf_mixers(keys, type, layers);
  read_hf_experts(keys, type, layers);
  if (!draft.has("model.experts")) {
    read_width(keys, type, layers);
    const char* family = type.has(HfType::gpt) ? "gpt" : "llama";
    if (const auto said = keys.text({"model_type"}))
      draft.say("model.family", family, *said->at, said->word + " " + said->value);
    else
      draft.derive("model.family", family, "a model of type " + type.name);
  }
  if (layers.differ())
    draft.say("model.layers", folded(layers.each), layers.at ? *layers.at : *count->at, layers.words);
  else
    draft.say("model.layers", count->value, *count->at, count->word);
  read_ends(keys, type);
  name_what_has_no_word(keys, type);
}

}  // namespace rehearsal::interchange
