// Dialects of configurations, each a published one without the keys that say nothing here; sizes against the counts of
// released weights. Biases of queries and keys, and norms of which a layer has more than two, are not counted, and are
// less than what is tolerated.
#include <fmt/format.h>

#include <cmath>

#include "hf_support.hpp"

namespace rehearsal::hf_test {
namespace {

using models::Family;
using models::FfnKind;
using models::MixerKind;

struct Dialect {
  const char* name;
  double billions;
  std::string config;
};
const std::vector<Dialect> kDialects{
    {"gpt2", .124439808, R"({"model_type": "gpt2", "activation_function": "gelu_new", "n_ctx": 1024, "n_embd": 768,
      "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257, "n_inner": null})"},
    {"opt-1.3b", 1.315758080, R"({"model_type": "opt", "activation_function": "relu", "ffn_dim": 8192,
      "hidden_size": 2048, "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 24,
      "vocab_size": 50272, "word_embed_proj_dim": 2048})"},
    {"bloom-560m", .559214592, R"({"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16,
      "vocab_size": 250880, "seq_length": 2048})"},
    {"falcon-7b", 6.921720704, R"({"model_type": "falcon", "alibi": false, "bias": false, "hidden_size": 4544,
      "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32,
      "num_kv_heads": 71, "parallel_attn": true, "vocab_size": 65024})"},
    {"mpt-7b", 6.649286656, R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32,
      "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432, "no_bias": true,
      "attn_config": {"alibi": true, "attn_impl": "torch"}})"},
    {"gpt-neox-20b", 20.554567680, R"({"model_type": "gpt_neox", "hidden_act": "gelu_fast", "hidden_size": 6144,
      "intermediate_size": 24576, "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44,
      "tie_word_embeddings": false, "use_parallel_residual": true, "vocab_size": 50432})"},
    {"starcoder", 15.517456384, R"({"model_type": "gpt_bigcode", "activation_function": "gelu", "multi_query": true,
      "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40, "n_positions": 8192, "vocab_size": 49152})"},
    {"starcoder2-7b", 7.173923840, R"({"model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh",
      "hidden_size": 4608, "intermediate_size": 18432, "max_position_embeddings": 16384, "num_attention_heads": 36,
      "num_hidden_layers": 32, "num_key_value_heads": 4, "sliding_window": 4096, "use_bias": true,
      "vocab_size": 49152})"},
    {"phi-2", 2.779683840, R"({"model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2560,
      "intermediate_size": 10240, "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32,
      "tie_word_embeddings": false, "vocab_size": 51200})"},
    {"bert-large-uncased", .335141888, R"({"model_type": "bert", "hidden_act": "gelu", "hidden_size": 1024,
      "intermediate_size": 4096, "max_position_embeddings": 512, "num_attention_heads": 16, "num_hidden_layers": 24,
      "type_vocab_size": 2, "vocab_size": 30522})"},
    {"Qwen2.5-7B", 7.615616512, R"({"model_type": "qwen2", "hidden_act": "silu", "hidden_size": 3584,
      "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
      "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072,
      "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064})"},
    {"Qwen1.5-MoE-A2.7B", 14.315784192, R"({"model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_act": "silu",
      "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 8192, "moe_intermediate_size": 1408,
      "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
      "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632, "tie_word_embeddings": false,
      "use_sliding_window": false, "vocab_size": 151936})"},
    {"gemma-2-9b", 9.241705984, R"({"model_type": "gemma2", "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
      "hidden_size": 3584, "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 16,
      "num_hidden_layers": 42, "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 256000})"},
    {"gemma-3-27b-it", 27.432406640, R"({"model_type": "gemma3", "mm_tokens_per_image": 256, "text_config": {
      "model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504,
      "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16, "query_pre_attn_scalar": 168,
      "sliding_window": 1024, "sliding_window_pattern": 6, "vocab_size": 262208}, "vision_config": {"hidden_size": 1152,
      "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16,
      "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": false}})"},
    {"granite-3.0-8b", 8.170848256, R"({"model_type": "granite", "hidden_act": "silu", "hidden_size": 4096,
      "intermediate_size": 12800, "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 40,
      "num_key_value_heads": 8, "tie_word_embeddings": true, "vocab_size": 49155})"},
    {"dbrx", 131.596523520, R"({"model_type": "dbrx", "attn_config": {"clip_qkv": 8, "kv_n_heads": 8}, "d_model": 6144,
      "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}, "max_seq_len": 32768,
      "n_heads": 48, "n_layers": 40, "tie_word_embeddings": false, "vocab_size": 100352})"},
    {"Nemotron-4-340B", 341, R"({"model_type": "nemotron", "hidden_act": "relu2", "hidden_size": 18432,
      "intermediate_size": 73728, "max_position_embeddings": 4096, "num_attention_heads": 96, "num_hidden_layers": 96,
      "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 256000})"},
    {"Qwen3-Next-80B-A3B", 79.67, R"({"model_type": "qwen3_next", "decoder_sparse_step": 1,
      "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
      "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
      "linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
      "mlp_only_layers": [], "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512,
      "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2,
      "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 151936})"},
    {"Kimi-Linear-48B-A3B", 49.1, R"({"model_type": "kimi_linear", "first_k_dense_replace": 1, "head_dim": 72,
      "hidden_act": "silu", "hidden_size": 2304, "intermediate_size": 9216, "kv_lora_rank": 512, "linear_attn_config": {
      "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13,
      14, 15, 17, 18, 19, 21, 22, 23, 25, 26], "num_heads": 32, "short_conv_kernel_size": 4}, "mla_use_nope": true,
      "moe_intermediate_size": 1024, "moe_layer_freq": 1, "num_attention_heads": 32, "num_experts": 256,
      "num_experts_per_token": 8, "num_hidden_layers": 27, "num_key_value_heads": 32, "num_nextn_predict_layers": 0,
      "num_shared_experts": 1, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 163840})"},
    {"MiniMax-Text-01", 456.09, R"({"model_type": "minimax_text_01", "attn_type_list": [ALL], "head_dim": 128,
      "hidden_act": "silu", "hidden_size": 6144, "intermediate_size": 9216, "num_attention_heads": 64,
      "num_experts_per_tok": 2, "num_hidden_layers": 80, "num_key_value_heads": 8, "num_local_experts": 32,
      "shared_intermediate_size": 0, "vocab_size": 200064})"},
    {"mamba2-1.3b", 1.344, R"({"model_type": "mamba2", "conv_kernel": 4, "expand": 2, "head_dim": 64,
      "hidden_size": 2048, "n_groups": 1, "num_heads": 64, "num_hidden_layers": 48, "state_size": 128,
      "tie_word_embeddings": true, "vocab_size": 50288})"},
};

std::string text_of(Dialect dialect) {
  std::string kinds;  // seven linear layers to one of attention
  for (int layer = 0; layer < 80; ++layer) kinds += fmt::format("{}{}", layer == 0 ? "" : ", ", layer % 8 == 7 ? 1 : 0);
  if (const auto at = dialect.config.find("ALL"); at != std::string::npos) dialect.config.replace(at, 3, kinds);
  return dialect.config;
}

interchange::Imported dialect_of(std::string_view name) {
  for (const auto& dialect : kDialects)
    if (name == dialect.name) return imported_text(text_of(dialect));
  FAIL(name);
  return {};
}

}  // namespace

TEST_CASE("dialects of configurations have the sizes of their released weights") {
  for (const auto& dialect : kDialects) {
    INFO(dialect.name);
    const auto from = imported_text(text_of(dialect));
    CHECK(std::abs(models::parameters(model_of(from)) / (dialect.billions * 1e9) - 1) < .005);
    for (const auto& left : from.draft.unknown()) FAIL_CHECK(left.what);
  }
}

TEST_CASE("families with layer norms: positions, norms behind the embedding, heads of keys") {
  const auto gpt2 = model_of(dialect_of("gpt2"));
  CHECK(gpt2.family == Family::gpt);
  CHECK(gpt2.learned_positions);
  CHECK(gpt2.tie_embeddings);
  CHECK(gpt2.ffn == 4 * 768);    // n_inner null
  CHECK(gpt2.sequence == 1024);  // no longer than the table of positions
  CHECK(gpt2.kv_heads == 12);
  const auto bloom = model_of(dialect_of("bloom-560m"));
  CHECK_FALSE(bloom.learned_positions);
  CHECK(bloom.embedding_norm);
  const auto falcon = dialect_of("falcon-7b");
  CHECK(model_of(falcon).kv_heads == 1);  // num_kv_heads counts only with new_decoder_architecture
  CHECK(dropped(falcon) == std::vector<std::string>{"parallel_attn: true"});
  CHECK(model_of(dialect_of("starcoder")).kv_heads == 1);
  CHECK_FALSE(model_of(dialect_of("mpt-7b")).learned_positions);  // ALiBi
  CHECK_FALSE(model_of(dialect_of("gpt-neox-20b")).tie_embeddings);
  CHECK(dropped(dialect_of("opt-1.3b")) == std::vector<std::string>{"activation_function: relu"});
  const auto bert = model_of(dialect_of("bert-large-uncased"));
  CHECK(bert.encoder);
  CHECK(bert.embedding_norm);
}

TEST_CASE("windows: of all layers, of every second one, of five in six, of the last ones") {
  const auto starcoder = model_of(dialect_of("starcoder2-7b"));
  CHECK(starcoder.family == Family::llama);
  CHECK(starcoder.ffn_kind == FfnKind::gelu);
  CHECK(starcoder.listed.empty());
  CHECK(starcoder.mixing.window == 4096);
  const auto windows = [](const models::Transformer& model) {
    std::string all;
    const auto table = models::layer_table(model);
    for (const auto row : table.of_layer) all += table.rows[row].spec.mixer.window > 0 ? 'w' : '.';
    return all;
  };
  CHECK(windows(model_of(dialect_of("gemma-2-9b"))).substr(0, 6) == "w.w.w.");
  CHECK(windows(model_of(dialect_of("gemma-3-27b-it"))).substr(0, 12) == "wwwww.wwwww.");
  CHECK(windows(model_of(dialect_of("Qwen2.5-7B"))) == std::string(28, '.'));  // use_sliding_window: false
  const std::string qwen = R"({"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128,
      "num_attention_heads": 4, "num_hidden_layers": 6, "vocab_size": 100, "sliding_window": 32, )";
  CHECK(windows(model_of(imported_text(qwen + R"("use_sliding_window": true, "max_window_layers": 4})"))) == "....ww");
  CHECK(windows(model_of(imported_text(qwen + R"("use_sliding_window": true, "max_window_layers": 0})"))) == "wwwwww");
  // EXAONE 4, local and global.
  const auto exaone = model_of(imported_text(qwen + R"("sliding_window_pattern": "LLLG"})"));
  CHECK(windows(exaone) == "www.ww");
}

TEST_CASE("heads of their own where layers have a window (MiMo-V2)") {
  const auto model = model_of(imported_text(R"({"model_type": "mimo_v2_flash", "hidden_size": 4096, "head_dim": 192,
      "intermediate_size": 16384, "num_attention_heads": 64, "num_key_value_heads": 4, "num_hidden_layers": 4,
      "hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window": 128, "swa_num_key_value_heads": 8, "swa_head_dim": 192,
      "add_swa_attention_sink_bias": true, "add_full_attention_sink_bias": false, "v_head_dim": 128,
      "moe_layer_freq": [0, 1, 1, 1], "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
      "vocab_size": 152576})"));
  const auto table = models::layer_table(model);
  REQUIRE(table.rows.size() == 3);
  const auto& first = table.rows[0].spec;
  const auto& window = table.rows[1].spec;
  CHECK(first.ffn.width == 16384);
  CHECK_FALSE(first.ffn.has_experts());
  CHECK(first.mixer.kv_heads == 4);
  CHECK(first.mixer.value_dim() == 128);
  CHECK_FALSE(first.mixer.sinks);
  CHECK(window.mixer.window == 128);
  CHECK(window.mixer.kv_heads == 8);
  CHECK(window.mixer.sinks);
  CHECK(window.ffn.expert_width == 2048);
  CHECK(table.rows[2].spec.mixer == first.mixer);
}

TEST_CASE("layers with a state: the delta rule, with a gate behind other attention; lightning; Mamba-2 alone") {
  const auto next = models::layer_table(model_of(dialect_of("Qwen3-Next-80B-A3B")));
  REQUIRE(next.rows.size() == 2);
  CHECK(next.rows[0].spec.mixer.kind == MixerKind::delta);
  CHECK(next.rows[0].count == 36);
  CHECK(next.rows[1].spec.mixer.gate);
  CHECK(next.rows[1].spec.mixer.qk_norm);
  const auto kimi = dialect_of("Kimi-Linear-48B-A3B");
  const auto table = models::layer_table(model_of(kimi));
  CHECK(table.rows[table.of_layer[3]].spec.mixer.mla.has_value());
  CHECK(table.rows[table.of_layer[4]].spec.mixer.kind == MixerKind::delta);
  CHECK(table.rows[table.of_layer[26]].spec.mixer.mla.has_value());
  CHECK_FALSE(table.rows[0].spec.ffn.has_experts());
  CHECK(dropped(kimi) == std::vector<std::string>{"linear_attn_config.kda_layers"});
  const auto minimax = models::layer_table(model_of(dialect_of("MiniMax-Text-01")));
  REQUIRE(minimax.rows.size() == 2);
  CHECK(minimax.rows[0].spec.mixer.kind == MixerKind::lightning);
  CHECK(minimax.rows[0].spec.mixer.kv_heads == 64);  // as many keys as queries
  CHECK(minimax.rows[1].count == 10);
  const auto mamba = models::layer_table(model_of(dialect_of("mamba2-1.3b")));
  REQUIRE(mamba.rows.size() == 1);
  CHECK(mamba.rows[0].spec.mixer.kind == MixerKind::mamba2);
  CHECK(mamba.rows[0].spec.ffn.nothing());
}

TEST_CASE("which layers have experts: every n-th, all but some, those that are listed") {
  const auto dense = [](const std::string& more) {
    const auto model = model_of(imported_text(R"({"model_type": "qwen2_moe", "hidden_size": 64,
        "intermediate_size": 128, "moe_intermediate_size": 32, "num_attention_heads": 4, "num_hidden_layers": 6,
        "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 100, )" +
                                              more + "}"));
    std::string all;
    const auto table = models::layer_table(model);
    for (const auto row : table.of_layer) {
      const auto& ffn = table.rows[row].spec.ffn;
      CHECK((ffn.has_experts() ? ffn.expert_width == 32 : ffn.width == 128));
      all += ffn.has_experts() ? 'e' : 'd';
    }
    return all;
  };
  CHECK(dense(R"("decoder_sparse_step": 2)") == "dedede");
  CHECK(dense(R"("decoder_sparse_step": 1, "mlp_only_layers": [0, 4])") == "deeede");
  CHECK(dense(R"("first_k_dense_replace": 2)") == "ddeeee");
  CHECK(dense(R"("first_k_dense_replace": 1, "moe_layer_freq": 2)") == "ddeded");
  CHECK(dense(R"("moe_layer_freq": [0, 1, 1, 1, 1, 0])") == "deeeed");
  CHECK(dense(R"("interleave_moe_layer_step": 3)") == "ddedde");
  CHECK(dense(R"("moe_layers": [1, 2])") == "deeddd");
  CHECK(dense(R"("mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "dense"])") == "deeeed");
  CHECK(dense(R"("moe_layer_start_index": 1, "moe_layer_end_index": 4, "moe_layer_interval": 1)") == "deeeed");
  CHECK(dense(R"("moe_layers_enum": "3,4,5")") == "dddeee");
}

TEST_CASE("what an outer configuration says of both ends goes before the inner one") {
  const auto model = model_of(imported_text(R"({"model_type": "qwen3_vl", "tie_word_embeddings": true, "text_config": {
      "model_type": "qwen3_vl_text", "tie_word_embeddings": false, "hidden_size": 64, "intermediate_size": 128,
      "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100}})"));
  CHECK(model.tie_embeddings);
}

TEST_CASE("unknown types, activations, towers and checkpoints in few bits are named") {
  const std::string shape = R"("hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
      "num_hidden_layers": 2, "vocab_size": 100)";
  const auto other = imported_text(R"({"model_type": "novel", "hidden_act": "situ", "wings": 2, )" + shape + "}");
  CHECK(dropped(other) == std::vector<std::string>{"model_type: novel", "hidden_act: situ"});
  REQUIRE(other.draft.unknown().size() == 1);
  CHECK(other.draft.unknown()[0].what == "wings");
  CHECK(model_of(other).family == Family::llama);
  const auto bits = imported_text(R"({"model_type": "llama", "quantization_config": {"quant_method": "bitsandbytes",
      "load_in_4bit": true}, )" + shape +
                                  "}");
  CHECK(dropped(bits) == std::vector<std::string>{"quantization_config.quant_method: bitsandbytes"});
  const auto tower = imported_text(R"({"model_type": "llava", "text_config": {"model_type": "llama", )" + shape +
                                   R"(}, "vision_config": {"hidden_size": 32}})");
  CHECK(dropped(tower) == std::vector<std::string>{"vision_config"});
  CHECK_FALSE(model_of(tower).vision.has_value());
}

TEST_CASE("what cannot be a model is refused at its line, with what is wanted") {
  const auto with = [](const std::string& more) {
    return refusal(
        "{\"model_type\": \"llama\",\n\"num_hidden_layers\": 4, \"hidden_size\": 64, "
        "\"intermediate_size\": 128,\n\"num_attention_heads\": 4, \"vocab_size\": 100" +
        more + "}");
  };
  const auto says = [](const std::string& message, const char* what) {
    INFO(message);
    CHECK(message.find(what) != message.npos);
  };
  CHECK(with("") == "");
  says(with(",\n\"layer_types\": [\"full_attention\"]"),
       "config.json:4: 'layer_types' has 1 entries, and there are 4 layers");
  says(with(",\n\"layer_types\": [\"full_attention\", \"conv\", \"conv\", \"conv\"]"), "no word for a layer of 'conv'");
  says(with(",\n\"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\", "
            "\"full_attention\"]"),
       "'sliding_window' is missing");
  says(with(",\n\"num_experts\": 8"), "no key says how many of them a token uses");
  says(with(",\n\"num_experts\": 8, \"num_experts_per_tok\": 2,\n\"n_routed_experts\": 16"),
       "config.json:4: 'num_experts' is 8, and 'n_routed_experts' is 16 in line 5");
  says(with(",\n\"kv_lora_rank\": 8"), "'qk_rope_head_dim'");
  says(with(",\n\"is_encoder_decoder\": true"), "an encoder and a decoder");
  says(with(",\n\"block_configs\": [{}]"), "block_configs");
  says(with(",\n\"head_dim\": \"wide\""), "config.json:4: 'head_dim' must be a whole number");
  says(refusal(R"({"model_type": "mamba", "num_hidden_layers": 4})"), "no word for layers of 'mamba'");
  says(refusal(R"({"model_type": "llama", "num_hidden_layers": 1e12, "hidden_size": 64})"), "from 1 to 100000");
  says(refusal(R"({"model_type": "llama", "num_hidden_layers": 4})"),
       "'hidden_size' (width between layers) is missing");
  says(refusal(R"({"model_type": "nemotron_h", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4,
                   "hybrid_override_pattern": "MX*"})"),
       "found 'X'");
}

}  // namespace rehearsal::hf_test
