// How tokens see each other, layer by layer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

enum class Sees : std::uint8_t { all, window, chunk, sparse, linear, lightning, mamba, nothing };
constexpr std::size_t kSees = 8;
constexpr std::int64_t kTaps = 4;  // of a convolution where a scenario says nothing

// Words of `layer_types` and its relatives.
std::optional<Sees> sees_of(std::string_view word) {
  static constexpr std::pair<std::string_view, Sees> kWords[] = {{"full_attention", Sees::all},
                                                                 {"attention", Sees::all},
                                                                 {"sliding_attention", Sees::window},
                                                                 {"sliding_window_attention", Sees::window},
                                                                 {"chunked_attention", Sees::chunk},
                                                                 {"deepseek_sparse_attention", Sees::sparse},
                                                                 {"linear_attention", Sees::linear},
                                                                 {"lightning_attention", Sees::lightning},
                                                                 {"mamba", Sees::mamba},
                                                                 {"mamba2", Sees::mamba}};
  for (const auto& [known, sees] : kWords)
    if (known == word) return sees;
  return {};
}

class Mixers {
 public:
  Mixers(Keys& keys, const HfType& type, HfLayers& layers)
      : keys_(keys), draft_(keys.draft()), type_(type), layers_(layers), sees_(layers.count(), Sees::all) {}

  void read() {
    window_ =
        keys_.integer({"sliding_window", "sliding_window_size", "attn_config.sliding_window_size", "window_size"});
    if (window_ && window_->value <= 0) window_.reset();  // llm-foundry: -1
    if (type_.has(HfType::gpt)) return of_gpt();
    common();
    chunk_ = keys_.integer({"attention_chunk_size"});
    sparse_ = keys_.integer({"index_topk"});
    which();
    states();
    write();
    others();
  }

 private:
  // A scenario's models with layer norms see all tokens.
  void of_gpt() {
    if (window_)
      draft_.no_word(window_->at->where(), fmt::format("{}: {}", window_->word, window_->value),
                     "of a model with layer norms; all tokens are taken");
  }

  // ---- what all attention has
  void common() {
    const auto flag = [&](const char* key, Keys::Names names, HfType::Trait trait) {
      if (const auto said = keys_.boolean(names); said)
        said->value ? draft_.say(std::string("model.mixer.") + key, true, *said->at, said->word) : void();
      else if (type_.has(trait))
        draft_.derive(std::string("model.mixer.") + key, true, "transformers' " + type_.name);
    };
    flag("qk_norm", {"use_qk_norm", "qk_layernorm", "attn_config.qk_ln"}, HfType::qk_norm);
    flag("gate", {"attn_output_gate", "attention_output_gate"}, HfType::gate);
    flag("sinks", {"add_full_attention_sink_bias"}, HfType::sinks);
    if (const auto value = keys_.integer({"v_head_dim"});
        value && !layers_.latent && value->value != draft_.integer("model.head_dim", 0))
      draft_.say("model.mixer.value_dim", value->value, *value->at, value->word);
  }

  // ---- which layers see what
  template <class T>
  void set(const Said<T>& said, const std::function<Sees(std::size_t)>& of) {
    for (std::size_t i = 0; i < sees_.size(); ++i) sees_[i] = of(i);
    layers_.said_by(said);
  }

  void which() {
    if (halves() || listed() || numbered()) return;
    if (const auto every = keys_.integer({"full_attention_interval"}); every && every->value > 0)
      return set(*every,
                 [&](std::size_t i) { return (std::int64_t(i) + 1) % every->value == 0 ? Sees::all : Sees::linear; });
    if (chunk_) return chunks();
    if (window_) return windows();
    if (sparse_) std::fill(sees_.begin(), sees_.end(), Sees::sparse);
    if (type_.name == "mamba2") std::fill(sees_.begin(), sees_.end(), Sees::mamba);
  }

  // Nemotron-H: a layer is a mixer or a feed-forward part (configuration_nemotron_h.py).
  bool halves() {
    const auto letters = keys_.text({"hybrid_override_pattern"});
    const auto words = letters ? std::nullopt : keys_.list({"layers_block_type"});
    if (!letters && !words) return false;
    if (words) kinds_ = layers_.entries(*words);
    if (letters) {
      if (letters->value.size() != layers_.count())
        wrong(*letters->at, fmt::format("'{}' has {} letters, and there are {} layers; one of the two is wrong",
                                        letters->word, letters->value.size(), layers_.count()));
      for (const char letter : letters->value)
        kinds_.push_back(letter == 'M'   ? "mamba"
                         : letter == '*' ? "attention"
                         : letter == 'E' ? "moe"
                         : letter == '-' ? "mlp"
                                         : std::string(1, letter));
    }
    const Node& at = letters ? *letters->at : *words->at;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      auto& layer = layers_.each[i];
      const auto& kind = kinds_[i];
      if (kind == "mamba")
        sees_[i] = Sees::mamba, layer["ffn"] = "none";
      else if (kind == "attention")
        layer["ffn"] = "none";
      else if (kind == "moe" || kind == "mlp")
        sees_[i] = Sees::nothing, kind == "mlp" ? void(layer["ffn"] = "dense") : void();
      else
        wrong(at, fmt::format("layers are mamba (M), attention (*), moe (E) and mlp (-); found '{}'", kind));
    }
    letters ? layers_.said_by(*letters) : layers_.said_by(*words);
    return true;
  }

  bool listed() {
    const auto types = keys_.list({"layer_types"});
    if (!types) return false;
    const auto words = layers_.entries(*types);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto sees = sees_of(words[i]);
      if (!sees)
        wrong(*types->value[i],
              fmt::format("a scenario has no word for a layer of '{}'; it knows full_attention, sliding_attention, "
                          "chunked_attention, deepseek_sparse_attention, linear_attention and mamba",
                          words[i]));
      sees_[i] = *sees == Sees::linear && type_.has(HfType::lightning) ? Sees::lightning : *sees;
    }
    layers_.said_by(*types);
    return true;
  }

  // Lists of numbers: of kinds, or of layers.
  bool numbered() {
    if (const auto list = keys_.list({"attn_type_list"})) {  // MiniMax: 0 linear, 1 attention
      const auto attention = layers_.switches(*list);
      set(*list, [&](std::size_t i) { return attention[i] ? Sees::all : Sees::lightning; });
      return true;
    }
    if (const auto list = keys_.list({"hybrid_layer_pattern"})) {  // MiMo-V2: 1 has the window
      const auto window = layers_.switches(*list);
      set(*list, [&](std::size_t i) { return window[i] ? Sees::window : Sees::all; });
      return true;
    }
    if (const auto list = keys_.list({"compress_ratios"})) {
      const auto ratios = layers_.entries(*list);
      set(*list, [&](std::size_t i) { return ratios[i] == "4" && sparse_ ? Sees::sparse : Sees::window; });
      draft_.no_word(list->at->where(), list->word,
                     "keys of several tokens in one: layers of ratio 4 are taken as sparse, others as their window");
      return true;
    }
    // Attention in layers that are listed, counted from 1 (Kimi Linear) or from 0 (Bamba).
    for (const auto& [key, first, other] :
         {std::tuple("linear_attn_config.full_attn_layers", std::size_t{1}, Sees::linear),
          std::tuple("attn_layer_indices", std::size_t{0}, Sees::mamba)})
      if (const auto list = keys_.list({key})) {
        const auto of_attention = texts_of(list->value);
        for (std::size_t i = 0; i < sees_.size(); ++i)
          sees_[i] = of_attention.contains(std::to_string(i + first)) ? Sees::all : other;
        layers_.said_by(*list);
        return true;
      }
    return false;
  }

  // Llama 4: every fourth layer has no rotary positions and sees all tokens (no_rope_layers: 0).
  void chunks() {
    if (const auto list = keys_.list({"no_rope_layers"}); list && !list->value.empty()) {
      const auto rotary = layers_.switches(*list);
      return set(*list, [&](std::size_t i) { return rotary[i] ? Sees::chunk : Sees::all; });
    }
    const auto said = keys_.integer({"no_rope_layer_interval"});
    const auto every = said ? said->value : 4;
    set(*chunk_,
        [&](std::size_t i) { return every > 0 && (std::int64_t(i) + 1) % every == 0 ? Sees::all : Sees::chunk; });
  }

  void windows() {
    const auto used = keys_.boolean({"use_sliding_window"});
    if (used && !used->value) return;
    if (const auto said = keys_.node({"sliding_window_pattern"})) {
      const auto& text = said->value->text;
      if (const auto every = integer_of(text); every && *every > 0)  // Gemma 3, Cohere 2: every n-th sees all
        return set(*said,
                   [&](std::size_t i) { return (std::int64_t(i) + 1) % *every == 0 ? Sees::all : Sees::window; });
      if (!text.empty() && text.find_first_not_of("LG") == text.npos)  // EXAONE 4: local and global
        return set(*said, [&](std::size_t i) { return text[i % text.size()] == 'G' ? Sees::all : Sees::window; });
      wrong(*said->at, fmt::format("'{}' is a number, or letters L and G; found {}", said->word, text));
    }
    if (type_.has(HfType::every_second))
      return set(*window_, [](std::size_t i) { return i % 2 == 0 ? Sees::window : Sees::all; });
    if (const auto first = keys_.integer({"max_window_layers"}); first && used && first->value > 0)  // Qwen2
      return set(*window_, [&](std::size_t i) { return std::int64_t(i) >= first->value ? Sees::window : Sees::all; });
    std::fill(sees_.begin(), sees_.end(), Sees::window);
  }

  // ---- what layers with a state have
  void states() {
    using Names = std::initializer_list<std::pair<const char*, Keys::Names>>;
    const auto fill = [&](Sees sees, const char* kind, Names names) {
      auto& state = states_[std::size_t(sees)];
      state["kind"] = kind;
      for (const auto& [key, others] : names)
        if (const auto said = keys_.integer(others);
            said && !(said->value == kTaps && std::string_view(key) == "convolution"))
          state[key] = said->value;
    };
    fill(Sees::linear, "linear",
         {{"heads", {"linear_num_value_heads", "linear_attn_config.num_heads"}},
          {"kv_heads", {"linear_num_key_heads", "linear_attn_config.num_heads"}},
          {"head_dim", {"linear_key_head_dim", "linear_attn_config.head_dim"}},
          {"value_dim", {"linear_value_head_dim", "linear_attn_config.head_dim"}},
          {"convolution", {"linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"}}});
    fill(Sees::mamba, "mamba2",
         {{"heads", {"mamba_num_heads", "mamba_n_heads"}},
          {"kv_heads", {"n_groups", "mamba_n_groups"}},
          {"head_dim", {"ssm_state_size", "mamba_d_state", "state_size"}},
          {"value_dim", {"mamba_head_dim", "mamba_d_head"}},
          {"convolution", {"conv_kernel", "mamba_d_conv"}}});
    fill(Sees::lightning, "lightning", {});
    // MiniMax-01 (arXiv 2501.08313, section 2.2): as many keys as queries, and no convolution before the state.
    states_[std::size_t(Sees::lightning)]["kv_heads"] = layers_.heads;
    states_[std::size_t(Sees::lightning)]["convolution"] = 0;
    if (type_.name == "mamba2") {  // all of its heads are of the state
      auto& state = states_[std::size_t(Sees::mamba)];
      state["heads"] = layers_.heads;
      if (const auto* head = draft_.find("model.head_dim")) state["value_dim"] = *head;
      for (auto& layer : layers_.each) layer["ffn"] = "none";
    }
    if (keys_.has("linear_attn_config.kda_layers"))
      draft_.no_word(keys_.node({"linear_attn_config"})->at->where(), "linear_attn_config.kda_layers",
                     "a decay of each column (Kimi Linear); taken as the gated delta rule");
  }

  // ---- into the draft: of all layers where they are alike, else layer by layer
  Json seen(Sees sees) {
    auto mixer = Json::object();
    const auto amount = [&](const std::optional<Said<std::int64_t>>& said, const char* key, const char* word) {
      if (!said)
        wrong(*keys_.map(), fmt::format("layers with {0}, and '{1}' is missing, which says how long it is", key, word));
      mixer[key] = said->value;
    };
    if (sees == Sees::window) amount(window_, "window", "sliding_window");
    if (sees == Sees::chunk) amount(chunk_, "chunk", "attention_chunk_size");
    if (sees == Sees::sparse) {
      amount(sparse_, "sparse", "index_topk");
      if (const auto heads = keys_.integer({"index_n_heads"})) mixer["index_heads"] = heads->value;
      if (const auto columns = keys_.integer({"index_head_dim"})) mixer["index_dim"] = columns->value;
    }
    if (sees == Sees::linear || sees == Sees::lightning || sees == Sees::mamba) return states_[std::size_t(sees)];
    own_heads(sees, mixer);
    return mixer;
  }

  // Layers of one kind may have heads of their own: those that see all (Gemma 4), or those with a window (MiMo-V2,
  // Step 3.5).
  void own_heads(Sees sees, Json& mixer) {
    const auto take = [&](const char* key, Keys::Names names, const char* of_model) {
      if (const auto said = keys_.integer(names); said && said->value != draft_.integer(of_model, 0))
        mixer[key] = said->value;
    };
    const bool mixed = std::find(sees_.begin(), sees_.end(), Sees::window) != sees_.end() &&
                       std::find(sees_.begin(), sees_.end(), Sees::all) != sees_.end();
    if (sees == Sees::all && mixed) {
      take("kv_heads", {"num_global_key_value_heads"}, "model.kv_heads");
      take("head_dim", {"global_head_dim"}, "model.head_dim");
      if (const auto same = keys_.boolean({"attention_k_eq_v"}); same && same->value) mixer["keys_as_values"] = true;
    }
    if (sees == Sees::window) {
      take("heads", {"swa_num_attention_heads", "attention_other_setting.num_attention_heads"}, "model.heads");
      take("kv_heads", {"swa_num_key_value_heads", "attention_other_setting.num_attention_groups"}, "model.kv_heads");
      take("head_dim", {"swa_head_dim", "attention_other_setting.head_dim"}, "model.head_dim");
      if (const auto sinks = keys_.boolean({"add_swa_attention_sink_bias"}); sinks && sinks->value)
        mixer["sinks"] = true;
    }
  }

  void write() {
    std::array<Json, kSees> of;
    std::array<bool, kSees> there{};
    for (const auto sees : sees_) there[std::size_t(sees)] = true;
    std::size_t kinds = 0;
    for (std::size_t i = 0; i < kSees; ++i)
      if (there[i]) of[i] = Sees(i) == Sees::nothing ? Json("none") : seen(Sees(i)), ++kinds;
    const auto first = sees_.front();
    const bool attention = first == Sees::all || first == Sees::window || first == Sees::chunk || first == Sees::sparse;
    if (kinds == 1 && attention) {
      const auto& said = first == Sees::window ? window_ : first == Sees::chunk ? chunk_ : sparse_;
      for (const auto& [key, value] : of[std::size_t(first)].members()) {
        const auto own = key == "index_heads" ? keys_.integer({"index_n_heads"})
                         : key == "index_dim" ? keys_.integer({"index_head_dim"})
                                              : said;
        draft_.say("model.mixer." + key, value, own ? *own->at : *keys_.map(), own ? own->word : "");
      }
      if (!kinds_.empty()) return;
      layers_.at = nullptr, layers_.words.clear();
      return;
    }
    if (there[std::size_t(Sees::window)] && window_) layers_.said_by(*window_);
    for (std::size_t i = 0; i < sees_.size(); ++i) {
      const auto& mixer = of[std::size_t(sees_[i])];
      if (mixer.is_string() || !mixer.members().empty()) {
        // In this order people read a run.
        Json layer{{"mixer", mixer}};
        layer.update(layers_.each[i]);
        layers_.each[i] = layer;
      }
    }
  }

  // ---- without a word
  void others() {
    if (const auto kinds = keys_.list({"indexer_types"})) {
      const auto words = layers_.entries(*kinds);
      const auto shared = std::count(words.begin(), words.end(), "shared");
      if (shared > 0)
        draft_.no_word(
            kinds->at->where(), kinds->word,
            fmt::format("{} of {} layers choose as the one before does; each is taken with an indexer of its "
                        "own",
                        shared, words.size()));
    }
    if (layers_.latent) return;
    // DeepSeek V4: queries pass a narrow product, results another.
    const auto narrow = keys_.integer({"q_lora_rank"});
    if (narrow)
      draft_.no_word(narrow->at->where(), fmt::format("{}: {}", narrow->word, narrow->value),
                     "without kv_lora_rank; queries are taken as one product");
    const auto out = keys_.integer({"o_lora_rank"});
    if (out)
      draft_.no_word(out->at->where(), fmt::format("{}: {}", out->word, out->value),
                     "the product behind attention is taken whole");
    if (narrow && out) draft_.derive("model.mixer.keys_as_values", true, "one latent is key and value (deepseek_v4)");
  }

  Keys& keys_;
  ScenarioDraft& draft_;
  const HfType& type_;
  HfLayers& layers_;
  std::vector<Sees> sees_;
  std::vector<std::string> kinds_;  // of half layers
  std::optional<Said<std::int64_t>> window_, chunk_, sparse_;
  std::array<Json, kSees> states_;
};

}  // namespace

void read_hf_mixers(Keys& keys, const HfType& type, HfLayers& layers) {
  Mixers(keys, type, layers).read();
  // Of the parts above, those that this model has no layers for.
  keys.ignore({"sliding_window_pattern",
               "max_window_layers",
               "use_sliding_window",
               "no_rope_layers",
               "no_rope_layer_interval",
               "full_attention_interval",
               "index_n_heads",
               "index_head_dim",
               "index_topk_freq",
               "index_topk_pattern",
               "index_skip_topk_offset",
               "index_share_for_mtp_iteration",
               "o_groups",
               "qk_rope_head_dim",
               "global_head_dim",
               "num_global_key_value_heads",
               "attention_k_eq_v",
               "swa_*",
               "add_swa_attention_sink_bias",
               "expand",
               "chunk_size",
               "mamba_*",
               "linear_attn_config",
               "layer_types"});
}

}  // namespace rehearsal::interchange
