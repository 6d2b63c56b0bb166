// Arguments that say what is trained. Rules are those of megatron/training/arguments.py (validate_args) and of
// megatron/core/transformer/transformer_config.py.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "interchange/megatron/reading.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

constexpr std::int64_t kMegatronVocabulary = 51'200;

// Tokenizers that come with one vocabulary: those of GPT-2, BERT, Llama 2 and, by Primus' names, Llama 3 and DeepSeek.
struct KnownTokenizer {
  std::string_view name;
  std::int64_t vocabulary;
};
constexpr std::array kKnownTokenizers{
    KnownTokenizer{"GPT2BPETokenizer", 50'257},     KnownTokenizer{"BertWordPieceLowerCase", 30'522},
    KnownTokenizer{"BertWordPieceCase", 28'996},    KnownTokenizer{"Llama2Tokenizer", 32'000},
    KnownTokenizer{"Llama3Tokenizer", 128'256},     KnownTokenizer{"DeepSeekV2Tokenizer", 102'400},
    KnownTokenizer{"DeepSeekV3Tokenizer", 129'280},
};

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
    read_megatron_layers(run_, {.layers = layers,
                                .pattern = pattern_,
                                .delta_rule = variant_ && variant_->value == "gated_delta_net",
                                .hidden = hidden_,
                                .dense_width = [this] { dense_width(width_or_usual_); }});
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
    if (draft_.has("model")) return;  // another file says it
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
    for (const auto& [key, name] :
         {std::pair("model.hidden", "hidden_size"), std::pair("model.heads", "num_attention_heads")})
      if (!draft_.has(key))
        run_.contradict("num_layers", fmt::format("there is no '{}', which a model needs", run_.spelled(name)));
    hidden_ = run_.integer("hidden_size", 0), heads_ = run_.integer("num_attention_heads", 1);
    const auto length = keys_.integer({"seq_length", "encoder_seq_length"});
    if (length) draft_.say("model.sequence", length->value, *length->at, length->word);
    // Runs are shorter than what their model could take: this is no contradiction to another file.
    if (const auto longest = keys_.integer({"max_position_embeddings"}))
      draft_.derive(Fact::longest, longest->value, longest->word);
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
    const auto data = run_.words("data_path");
    // preprocess_data.py --split-sentences, which BERT alone needs among models of one stack.
    const bool sentences = data && std::any_of(data->value.begin(), data->value.end(),
                                               [](const auto& path) { return path.ends_with("_sentence"); });
    const bool bert = (tokenizer && tokenizer->value.starts_with("BertWordPiece")) || sentences ||
                      run_.arguments.script == "pretrain_bert.py";
    if (!bert) return;
    draft_.derive("model.encoder", true,
                  fmt::format("BERT{}: tokens see later ones, too", sentences ? ", by its data of sentences" : ""));
    if (run_.is("bert_binary_head", true))
      draft_.no_word(run_.place(sentences ? "data_path" : "tokenizer_type"),
                     "BERT's pooler and the head that tells whether sentences follow",
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
    const bool usual = groups->value == 1 && run_.arguments.listed == Keys::Listed::everything;
    if (!counts && groups->value != heads_ && !usual)
      draft_.no_word(groups->at->where(), fmt::format("{} {}", groups->word, groups->value),
                     fmt::format("without {} Megatron-LM ignores it: each head has keys of its own",
                                 run_.spelled("group_query_attention")));
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
    // The width of all together; where it is that of several, so many.
    const auto each = draft_.integer("model.expert_ffn", width_or_usual_);
    if (const auto shared = keys_.integer({"moe_shared_expert_intermediate_size"}); shared && shared->value > 0) {
      const bool whole = each > 0 && shared->value % each == 0;
      draft_.say(whole ? "model.shared_experts" : "model.shared_ffn", whole ? shared->value / each : shared->value,
                 *shared->at, shared->word + (whole ? fmt::format(" {}", shared->value) : ""));
    }
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
    } else if (const auto known = std::find_if(kKnownTokenizers.begin(), kKnownTokenizers.end(),
                                               [&name](const KnownTokenizer& one) { return one.name == name; });
               known != kKnownTokenizers.end()) {
      draft_.assume(Fact::vocabulary, known->vocabulary, fmt::format("what a {} usually has", name));
    } else {
      draft_.assume(Fact::vocabulary, kMegatronVocabulary,
                    fmt::format("it is in the tokenizer{}, which is not here; --set model.vocabulary=N says it",
                                name.empty() || name.find('$') != name.npos ? "" : ", a " + name));
    }
  }

  MegatronReading& run_;
  Keys& keys_;
  ScenarioDraft& draft_;
  std::optional<Said<std::string>> pattern_, variant_;
  std::optional<Said<std::int64_t>> experts_, width_;
  std::string kind_;
  std::int64_t hidden_ = 0, heads_ = 1, width_or_usual_ = 0;
  bool mla_ = false, gated_ = false, gpt_ = false;
};

}  // namespace

void read_megatron_model(MegatronReading& run) { MegatronModel(run).read(); }

}  // namespace rehearsal::interchange
