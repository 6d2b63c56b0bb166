// Arguments that say what is trained. Rules are those of megatron/training/arguments.py (validate_args) and of
// megatron/core/transformer/transformer_config.py.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "interchange/megatron_reading.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

constexpr std::int64_t kUsualVocabulary = 51'200, kGpt2Vocabulary = 50'257;

class MegatronModel {
 public:
  explicit MegatronModel(MegatronReading& run) : run_(run), keys_(run.keys), draft_(run.draft) {}

  void read() {
    encoder_decoder();
    const auto layers = keys_.integer({"num_layers", "encoder_num_layers"});
    pattern_ = keys_.text({"hybrid_layer_pattern"});
    vision();
    if (draft_.has("model.use")) return by_name(layers);
    if (!layers && !pattern_) return without_layers();
    if (layers) run_.layers = layers->value;
    sizes();
    family();
    attention();
    feed_forward();
    predictions();
    if (pattern_)
      pattern(layers);
    else
      layer_by_layer(*layers);
    ends();
  }

 private:
  void encoder_decoder() {
    if (const auto decoder = keys_.integer({"decoder_num_layers"}))
      wrong(*decoder->at,
            fmt::format("'{}': a model of an encoder and a decoder (T5) is no scenario: there is no word for layers "
                        "that look at the output of another stack",
                        decoder->word));
    if (run_.arguments.script == "pretrain_t5.py" || run_.arguments.script == "pretrain_ict.py" ||
        run_.arguments.script == "pretrain_retro.py")
      throw UserError(fmt::format("arguments: {} trains two networks, and a scenario has one", run_.arguments.script));
  }

  // Pictures in front of the language model: what the arguments leave open is code of the provider.
  void vision() {
    const bool typed = run_.arguments.listed == Keys::Listed::what_is_set;
    for (const char* name : {"img_h", "img_w", "patch_dim", "dataset_provider"})
      if (typed)
        run_.no_word(name,
                     "the vision tower is code of the trainer: only the language model is taken; model.vision "
                     "says a tower");
      else
        keys_.ignore({name});
  }

  void without_layers() {
    if (keys_.has("hidden_size") || keys_.has("num_attention_heads"))
      run_.contradict(keys_.has("hidden_size") ? "hidden_size" : "num_attention_heads",
                      fmt::format("there is no '{}'; how many layers are there?", run_.spelled("num_layers")));
    if (run_.is("use_checkpoint_args"))
      run_.contradict("use_checkpoint_args",
                      fmt::format("'{}': the model's sizes are in the checkpoint; give its config.json beside these "
                                  "arguments, or the log of a run, which begins with all that was resolved",
                                  run_.spelled("use_checkpoint_args")));
  }

  // A model that is called by its name, with what is changed of it.
  void by_name(const std::optional<Said<std::int64_t>>& layers) {
    if (layers) draft_.say("model.layers", layers->value, *layers->at, layers->word);
    keys_.say_integer("batch.sequence", {"seq_length", "encoder_seq_length"});
    keys_.say_integer("model.mtp_layers", {"mtp_num_layers"});
    keys_.ignore({"mtp_num_layers", "max_position_embeddings"});
    for (const char* name :
         {"hidden_size", "num_attention_heads", "ffn_hidden_size", "num_query_groups", "group_query_attention",
          "kv_channels", "multi_latent_attention", "num_experts", "moe_router_topk", "moe_ffn_hidden_size",
          "moe_layer_freq", "moe_shared_expert_intermediate_size", "hybrid_layer_pattern", "qk_layernorm", "swiglu",
          "vocab_size", "padded_vocab_size", "untie_embeddings_and_output_weights"})
      if (const auto said = keys_.node({name}))
        draft_.no_word(said->at->where(), said->word + ": " + scenario::flow_text(*said->value),
                       "the model is taken as its name has it; --set says parts of it otherwise");
    run_.named = true;
  }

  void sizes() {
    keys_.say_integer("model.hidden", {"hidden_size"});
    keys_.say_integer("model.heads", {"num_attention_heads"});
    for (const char* name : {"hidden_size", "num_attention_heads"})
      if (!keys_.has(name) && !draft_.has("model.hidden"))
        run_.contradict("num_layers", fmt::format("there is no '{}', which a model needs", run_.spelled(name)));
    hidden_ = run_.integer("hidden_size", 0), heads_ = run_.integer("num_attention_heads", 1);
    const auto length = keys_.integer({"seq_length", "encoder_seq_length"});
    if (length) draft_.say("model.sequence", length->value, *length->at, length->word);
    keys_.say(Fact::longest, {"max_position_embeddings"});
    experts_ = keys_.integer({"num_experts"});
    if (experts_ && experts_->value <= 0) experts_.reset();
    run_.experts = experts_ ? experts_->value : 0;
    variant_ = run_.word("experimental_attention_variant");
    mla_ = run_.is("multi_latent_attention");
  }

  bool windowed() {
    const auto window = run_.words("window_size");
    return window && !window->value.empty() && integer_of(window->value.front()).value_or(-1) >= 0;
  }

  // gpt: layer norms, biases, learned positions; llama: RMS norms, no biases, rotations; moe: llama with experts.
  void family() {
    const auto norm = run_.word("normalization");
    const auto positions = run_.word("position_embedding_type");
    const bool biases = run_.is("add_bias_linear", true);
    const bool root_mean_square = norm && norm->value == "RMSNorm";
    gated_ = run_.is("swiglu") || run_.is("quick_geglu") || run_.is("gated_linear_unit");
    const bool llama = gated_ || !biases || root_mean_square || mla_ || variant_ || windowed() ||
                       run_.is("qk_layernorm") || run_.is("attention_output_gate") ||
                       run_.integer("mtp_num_layers", 0) > 0;
    const bool mixed = pattern_ && pattern_->value.find('E') == std::string::npos;
    const char* family = mixed ? "hybrid" : experts_ ? "moe" : pattern_ ? "hybrid" : llama ? "llama" : "gpt";
    if (run_.arguments.partial) {
      gpt_ = false;
      draft_.assume("model.family", experts_ ? "moe" : "llama", "the recipe says it, which is not here");
      return;
    }
    gpt_ = std::string_view(family) == "gpt";
    draft_.derive("model.family", family,
                  gpt_                ? "layer norms and biases, as they are where nothing else is said"
                  : mixed || pattern_ ? "layers by a pattern"
                  : experts_          ? "there are experts"
                                      : "gates, norms, biases or attention of Llama");
    const auto differs = [this](const char* name, const std::string& what, const std::string& taken) {
      draft_.no_word(run_.place(keys_.has(name) ? name : "num_layers"), what, taken);
    };
    if (!gpt_ && biases)
      differs("add_bias_linear",
              fmt::format("biases of linear layers (no {})",
                          run_.arguments.typed ? "--disable-bias-linear" : "add_bias_linear: false"),
              fmt::format("family {} has none, about 0.1 % of the parameters", family));
    if (!gpt_ && !root_mean_square)
      differs("normalization", fmt::format("{} LayerNorm", run_.spelled("normalization")), "taken as RMSNorm");
    const auto where = positions                                   ? positions->value
                       : run_.is("use_rotary_position_embeddings") ? "rope"
                                                                   : "learned_absolute";
    const bool table = where == "learned_absolute" && run_.is("add_position_embedding", true);
    if (!gpt_ && table)
      differs("position_embedding_type", fmt::format("{} learned_absolute", run_.spelled("position_embedding_type")),
              fmt::format("family {} has rotations and no table of positions", family));
    if (gpt_ && !table) {
      draft_.derive("model.learned_positions", false, fmt::format("positions are {}", where));
      if (where != "none")
        differs("position_embedding_type", fmt::format("{} {}", run_.spelled("position_embedding_type"), where),
                "family gpt without its table; rotations are not priced");
    }
    encoder();
  }

  void encoder() {
    const auto tokenizer = run_.word("tokenizer_type");
    const bool bert =
        (tokenizer && tokenizer->value.starts_with("BertWordPiece")) || run_.arguments.script == "pretrain_bert.py";
    if (!bert) return;
    draft_.derive("model.encoder", true, "BERT: tokens see later ones, too");
    if (run_.is("bert_binary_head", true))
      draft_.no_word(run_.place("tokenizer_type"), "BERT's pooler and the head that tells whether sentences follow",
                     "well below 1 % of the parameters");
  }

  void attention() {
    if (mla_) {
      // Defaults of MLATransformerConfig.
      const auto part = [this](const char* key, const char* name, std::int64_t usual) {
        if (!keys_.say_integer(fmt::format("model.mla.{}", key), {name}))
          draft_.derive(fmt::format("model.mla.{}", key), usual, fmt::format("Megatron-Core's {}", name));
      };
      keys_.say_integer("model.mla.query_rank", {"q_lora_rank"});
      part("kv_rank", "kv_lora_rank", 32), part("rotary_dim", "qk_pos_emb_head_dim", 64);
      part("head_dim", "qk_head_dim", 128), part("value_dim", "v_head_dim", 128);
      keys_.ignore({"kv_channels", "group_query_attention", "num_query_groups"});
      run_.is("qk_layernorm");  // of the latents, where the model has it
    } else {
      keys_.ignore({"q_lora_rank", "kv_lora_rank", "qk_pos_emb_head_dim", "qk_head_dim", "v_head_dim"});
      const auto columns = keys_.integer({"kv_channels"});
      if (columns && (hidden_ % heads_ != 0 || columns->value != hidden_ / heads_))
        draft_.say("model.head_dim", columns->value, *columns->at, columns->word);
      groups();
      if (run_.is("qk_layernorm")) say_flag("model.mixer.qk_norm", "qk_layernorm");
    }
    if (run_.is("attention_output_gate")) say_flag("model.mixer.gate", "attention_output_gate");
    if (const auto softmax = run_.word("softmax_type"); softmax && softmax->value == "learnable")
      draft_.say("model.mixer.sinks", true, *softmax->at, softmax->word);
    else
      run_.no_word("softmax_type", "taken as the usual softmax", {"vanilla"});
    if (variant_ && variant_->value == "dsa") {
      const auto part = [this](const char* key, const char* name, std::int64_t usual) {
        if (!keys_.say_integer(fmt::format("model.mixer.{}", key), {name}))
          draft_.derive(fmt::format("model.mixer.{}", key), usual, fmt::format("DeepSeek-V3.2's; no {}", name));
      };
      part("sparse", "dsa_indexer_topk", 2048), part("index_heads", "dsa_indexer_n_heads", 64);
      part("index_dim", "dsa_indexer_head_dim", 128);
    } else if (variant_ && variant_->value != "gated_delta_net") {
      draft_.no_word(variant_->at->where(), variant_->word + " " + variant_->value, "taken as attention");
    }
  }

  // A table of arguments has num_query_groups: 1 also where every head has its own keys; configurations of
  // Megatron-Bridge have no group_query_attention and mean what they say.
  void groups() {
    const auto groups = keys_.integer({"num_query_groups"});
    const auto grouped = keys_.boolean({"group_query_attention"});
    const bool counts = grouped ? grouped->value : run_.arguments.configuration;
    if (!groups) {
      if (grouped && grouped->value)
        draft_.derive("model.kv_heads", 1, fmt::format("Megatron's {}", run_.spelled("num_query_groups")));
      return;
    }
    if (counts && groups->value != heads_) draft_.say("model.kv_heads", groups->value, *groups->at, groups->word);
  }

  void say_flag(const std::string& key, const char* name) {
    if (const auto flag = keys_.boolean({name})) draft_.say(key, true, *flag->at, flag->word);
  }

  void feed_forward() {
    const bool squared = run_.is("squared_relu");
    const auto activation = run_.word("activation_func");
    const bool relu2 = squared || (activation && activation->value.find("squared_relu") != std::string::npos);
    kind_ = gated_ ? "swiglu" : relu2 ? "squared-relu" : "gelu";
    if (!run_.arguments.partial && kind_ != (gpt_ ? "gelu" : "swiglu"))
      draft_.derive("model.ffn_kind", kind_,
                    relu2 ? run_.spelled("squared_relu") : "what there is without another activation");
    if (run_.is("quick_geglu"))
      draft_.no_word(run_.place("quick_geglu"), run_.spelled("quick_geglu"), "taken as swiglu, whose work is the same");
    keys_.ignore({"gated_linear_unit", "swiglu", "squared_relu", "activation_func", "openai_gelu"});
    width_ = keys_.integer({"ffn_hidden_size"});
    // validate_args: 4 h; with SwiGLU two thirds of that, in multiples of 64.
    const auto usual = gated_ ? hidden_ * 4 * 2 / 3 / 64 * 64 : 4 * hidden_;
    width_or_usual_ = width_ ? width_->value : usual;
    if (experts_) return experts();
    dense_width(usual);
  }

  void dense_width(std::int64_t usual) {
    if (width_)
      draft_.say("model.ffn", width_->value, *width_->at, width_->word);
    else
      draft_.derive("model.ffn", usual,
                    fmt::format("Megatron's width: 4 x {}{}", hidden_, gated_ ? " x 2/3 in multiples of 64" : ""));
  }

  void experts() {
    draft_.say("model.experts", experts_->value, *experts_->at, experts_->word);
    if (!keys_.say_integer("model.experts_per_token", {"moe_router_topk"}))
      draft_.derive("model.experts_per_token", 2, fmt::format("Megatron's {}", run_.spelled("moe_router_topk")));
    if (!keys_.say_integer("model.expert_ffn", {"moe_ffn_hidden_size"})) {
      if (width_)
        draft_.say("model.expert_ffn", width_->value, *width_->at, width_->word);
      else
        draft_.derive("model.expert_ffn", width_or_usual_, fmt::format("Megatron's width of 4 x {}", hidden_));
    }
    if (const auto shared = keys_.integer({"moe_shared_expert_intermediate_size"}); shared && shared->value > 0)
      draft_.say("model.shared_ffn", shared->value, *shared->at, shared->word);
    if (const auto latent = keys_.integer({"moe_latent_size"}); latent && latent->value > 0)
      draft_.say("model.expert_latent", latent->value, *latent->at, latent->word);
  }

  void predictions() {
    const auto modules = keys_.integer({"mtp_num_layers"});
    if (!modules || modules->value <= 0) return;
    if (pattern_)
      return draft_.no_word(modules->at->where(), fmt::format("{} {}", modules->word, modules->value),
                            "modules of multi-token prediction behind a pattern have layers of their own, "
                            "which there is no word for");
    run_.modules = modules->value;
    draft_.say("model.mtp_layers", modules->value, *modules->at, modules->word);
    run_.no_word("mtp_use_repeated_layer", "each module is taken to have parameters of its own");
  }

  // What frequencies say of each layer; where all are alike, their number.
  void layer_by_layer(const Said<std::int64_t>& layers) {
    if (layers.value < 1 || layers.value > 100'000)
      wrong(*layers.at, fmt::format("'{}' must be from 1 to 100000; found {}", layers.word, layers.value));
    const auto count = std::size_t(layers.value);
    const auto frequency = [&](const char* name) {
      const auto said = keys_.node({name});
      std::optional<std::vector<int>> list;
      if (said) list = layers_of_frequency(*said);
      if (list && list->size() != count)
        run_.contradict(name, fmt::format("'{}' is for {} layers, and '{}' ({}) says {}; one of the two is wrong",
                                          said->word, list->size(), layers.word, to_text(layers.at->where()), count));
      return list;
    };
    const auto every = [this](const char* name, std::int64_t otherwise) {
      const Node* value = run_.arguments.find(name);
      const auto number = value && value->kind == Node::Kind::scalar ? integer_of(value->text) : std::nullopt;
      return std::max<std::int64_t>(number.value_or(otherwise), 1);
    };
    std::vector<char> dense(count, 0), linear(count, 0), window(count, 0);
    if (experts_) {
      const auto list = frequency("moe_layer_freq");
      const auto n = every("moe_layer_freq", 1);
      for (std::size_t i = 0; i < count; ++i) dense[i] = list ? (*list)[i] == 0 : std::int64_t(i) % n != 0;
    } else {
      keys_.ignore({"moe_layer_freq"});
    }
    if (variant_ && variant_->value == "gated_delta_net") {
      const auto list = frequency("linear_attention_freq");
      const auto n = every("linear_attention_freq", 4);
      for (std::size_t i = 0; i < count; ++i) linear[i] = list ? (*list)[i] == 1 : std::int64_t(i + 1) % n != 0;
    }
    const auto sees = window_size();
    if (sees > 0) {
      const bool some = keys_.has("window_attn_skip_freq");
      const auto list = frequency("window_attn_skip_freq");
      const auto n = every("window_attn_skip_freq", 1);
      for (std::size_t i = 0; i < count; ++i)
        window[i] = list ? (*list)[i] != 0 : !some || std::int64_t(i + 1) % n != 0;
    } else {
      keys_.ignore({"window_attn_skip_freq"});
    }
    write_layers(layers, dense, linear, window, sees);
  }

  // Keys that a query sees: those to the left, and itself. -1: all.
  std::int64_t window_size() {
    const auto sides = run_.words("window_size");
    if (!sides || sides->value.empty()) return 0;
    const auto left = integer_of(sides->value.front()).value_or(-1);
    if (left < 0) return 0;
    const auto right = sides->value.size() > 1 ? integer_of(sides->value[1]).value_or(0) : 0;
    if (right > 0) draft_.no_word(sides->at->where(), fmt::format("{} to the right", sides->word), "tokens see back");
    return left + 1;
  }

  void write_layers(const Said<std::int64_t>& layers, const std::vector<char>& dense, const std::vector<char>& linear,
                    const std::vector<char>& window, std::int64_t sees) {
    const auto all = [](const std::vector<char>& marks, char value) {
      return std::all_of(marks.begin(), marks.end(), [value](char mark) { return mark == value; });
    };
    const auto first = std::find(dense.begin(), dense.end(), 0) - dense.begin();
    const bool leading = std::find(dense.begin() + first, dense.end(), 1) == dense.end();
    const auto where = fmt::format("{} {}", layers.word, layers.value);
    if (!all(dense, 0)) dense_width(width_or_usual_);
    if (all(window, 1)) draft_.derive("model.mixer.window", sees, run_.spelled("window_size"));
    const bool windows = !all(window, 0) && !all(window, 1);
    if (all(linear, 0) && !windows && leading && first < std::ptrdiff_t(dense.size())) {
      draft_.say("model.layers", layers.value, *layers.at, layers.word);
      if (first > 0) draft_.derive("model.dense_layers", std::int64_t(first), run_.spelled("moe_layer_freq"));
      return;
    }
    std::vector<Json> list;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      Json layer = Json::object();
      if (linear[i]) layer["mixer"] = delta_rule();
      if (windows && window[i]) layer["mixer"] = Json{{"window", sees}};
      if (dense[i]) layer["ffn"] = "dense";
      list.push_back(std::move(layer));
    }
    draft_.derive("model.layers", runs_of_layers(list), where + " of several kinds");
  }

  // Defaults of TransformerConfig.
  Json delta_rule() {
    return Json{{"kind", "linear"},
                {"heads", run_.integer("linear_num_value_heads", 32)},
                {"kv_heads", run_.integer("linear_num_key_heads", 16)},
                {"head_dim", run_.integer("linear_key_head_dim", 128)},
                {"value_dim", run_.integer("linear_value_head_dim", 128)},
                {"convolution", run_.integer("linear_conv_kernel_dim", 4)}};
  }

  // mamba_mixer.py: heads of 64 columns, twice the columns of a layer, 8 groups, a state of 128.
  Json mamba() {
    const auto columns = run_.integer("mamba_head_dim", 64);
    const auto heads = run_.integer("mamba_num_heads", 2 * hidden_ / std::max<std::int64_t>(columns, 1));
    return Json{{"kind", "mamba2"},
                {"heads", heads},
                {"kv_heads", run_.integer("mamba_num_groups", 8)},
                {"head_dim", run_.integer("mamba_state_dim", 128)},
                {"value_dim", columns}};
  }

  // megatron/core/models/hybrid: a letter for each half of a layer, | between stages, / before what modules of
  // multi-token prediction are made of.
  void pattern(const std::optional<Said<std::int64_t>>& layers) {
    auto text = pattern_->value;
    if (const auto slash = text.find('/'); slash != text.npos) {
      draft_.no_word(pattern_->at->where(), fmt::format("{} {}", pattern_->word, text.substr(slash)),
                     "modules of multi-token prediction behind a pattern have layers of their own, which there is no "
                     "word for");
      text.resize(slash);
    }
    std::string letters;
    run_.segments.assign(1, 0);
    for (const char c : text) {
      if (c == '|') {
        run_.segments.push_back(0);
        continue;
      }
      if (std::string_view("MG*-E").find(c) == std::string_view::npos)
        wrong(*pattern_->at,
              fmt::format("'{}' has the letter '{}', which a scenario has no word for; M is Mamba-2, G the gated delta "
                          "rule, * attention, - a feed-forward layer and E experts",
                          pattern_->word, c));
      letters += c, ++run_.segments.back();
    }
    if (letters.empty()) wrong(*pattern_->at, fmt::format("'{}' has no layers", pattern_->word));
    if (layers && layers->value != std::int64_t(letters.size()))
      run_.contradict("num_layers",
                      fmt::format("'{}' is {}, and '{}' ({}) has {} layers; one of the two is wrong", layers->word,
                                  layers->value, pattern_->word, to_text(pattern_->at->where()), letters.size()));
    run_.layers = std::int64_t(letters.size());
    if (run_.segments.size() == 1) run_.segments.clear();
    if (letters.find('E') != letters.npos && !experts_)
      run_.contradict("hybrid_layer_pattern",
                      fmt::format("'{}' has experts (E), and there is no '{}'; how many are there?", pattern_->word,
                                  run_.spelled("num_experts")));
    if (experts_ && letters.find('-') != letters.npos) dense_width(width_or_usual_);
    write_pattern(letters);
  }

  void write_pattern(const std::string& letters) {
    const auto usual = std::max<std::int64_t>(2 * hidden_ / 64 / 8, 1) * 8;  // what `model.pattern` takes M as
    const auto mixer = mamba();
    const bool plain =
        letters.find('G') == letters.npos &&
        (letters.find('M') == letters.npos ||
         mixer.dump() ==
             Json{{"kind", "mamba2"}, {"heads", usual}, {"kv_heads", 8}, {"head_dim", 128}, {"value_dim", 64}}.dump());
    if (plain) return draft_.say("model.pattern", letters, *pattern_->at, pattern_->word);
    std::vector<Json> list;
    for (const char c : letters) {
      Json layer = Json::object();
      if (c == 'M') layer["mixer"] = mixer;
      if (c == 'G') layer["mixer"] = delta_rule();
      if (c == '-' || c == 'E') layer["mixer"] = "none";
      if (c == '-' && experts_) layer["ffn"] = "dense";
      if (c != '-' && c != 'E') layer["ffn"] = "none";
      list.push_back(std::move(layer));
    }
    draft_.derive("model.layers", runs_of_layers(list),
                  fmt::format("{} {}", pattern_->word, scenario::printable(letters)));
  }

  void ends() {
    const auto untied = keys_.boolean({"untie_embeddings_and_output_weights"});
    const bool tied = !untied || !untied->value;
    if (tied != gpt_ && (untied || !run_.arguments.partial)) {
      if (untied)
        draft_.say("model.tie_embeddings", tied, *untied->at, untied->word);
      else
        draft_.derive("model.tie_embeddings", tied,
                      fmt::format("no {}", run_.spelled("untie_embeddings_and_output_weights")));
    }
    if (keys_.say_integer("model.vocabulary", {"padded_vocab_size"})) {
      keys_.ignore({"vocab_size", "make_vocab_size_divisible_by", "tokenizer_type", "should_pad_vocab"});
      return;
    }
    const bool padded = run_.is("should_pad_vocab", true);
    const auto unit = keys_.integer({"make_vocab_size_divisible_by"});
    if (padded && unit)
      draft_.say(Fact::vocabulary_unit, unit->value, *unit->at, unit->word);
    else if (padded)
      draft_.derive(Fact::vocabulary_unit, 128, "Megatron's --make-vocab-size-divisible-by");
    const auto tokenizer = run_.word("tokenizer_type");
    const auto name = tokenizer ? tokenizer->value : std::string();
    if (const auto size = keys_.integer({"vocab_size"})) {
      // The tokenizer without words has one more, for the end of a document (null_tokenizer.py).
      const bool null = name == "NullTokenizer" && padded && !keys_.has("should_pad_vocab");
      draft_.say(Fact::vocabulary, size->value + (null ? 1 : 0), *size->at,
                 size->word + (null ? " and one for the end of a document" : ""));
    } else if (name == "GPT2BPETokenizer") {
      draft_.assume(Fact::vocabulary, kGpt2Vocabulary, "GPT-2's, as its tokenizer says; the file is not here");
    } else {
      draft_.assume(Fact::vocabulary, kUsualVocabulary,
                    fmt::format("it is in the tokenizer{}, which is not here; --set model.vocabulary=N says it",
                                name.empty() || name.find('$') != name.npos ? "" : ", a " + name));
    }
  }

  MegatronReading& run_;
  Keys& keys_;
  Draft& draft_;
  std::optional<Said<std::string>> pattern_, variant_;
  std::optional<Said<std::int64_t>> experts_, width_;
  std::string kind_;
  std::int64_t hidden_ = 0, heads_ = 1, width_or_usual_ = 0;
  bool mla_ = false, gated_ = false, gpt_ = false;
};

}  // namespace

void read_megatron_model(MegatronReading& run) { MegatronModel(run).read(); }

}  // namespace rehearsal::interchange
