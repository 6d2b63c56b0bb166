// Configurations as they lie on the Hub: each is the model of the zoo, where there is one, and has as many parameters
// as were published; what it says and a scenario cannot say is named, to the word.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>

#include "hf_support.hpp"
#include "models/fields.hpp"

namespace rehearsal::hf_test {
namespace {

using Words = std::vector<std::string>;

struct Config {
  const char* file;
  // Billions, published with all parts that `parts` has not taken away; 0: no number, or not to be compared.
  double published;
  const char* zoo = "";
  // What the model of the zoo leaves out, and the configuration has: mtp, vision (models/zoo says so in each
  // file). Counts of cards leave modules of prediction out, too.
  Words parts = {};
  Words dropped = {};
};
// Sources of the counts: tests/contract/every_model.cpp. MiniMax-M2.7, DeepSeek-R1 and V3.1, GLM-5.1, Kimi K2.6 and
// quantised copies are the models whose shape they have. No counts are compared of DeepSeek V4, half of whose attention
// has no word, of GLM-5.2, whose indexers are shared, and of Nemotron 3.5, whose card was not at hand.
const Words kMtp{"mtp"}, kGroups{"topk_group: 4"}, kBias{"attention_bias: true"};
const Words kModule{"num_nextn_predict_layers: 1"}, kOss{"attention_bias: true", "swiglu_limit: 7.0"};
const Words kMore{"compress_ratios", "q_lora_rank: 1536", "o_lora_rank: 1024", "hc_mult: 4", "num_hash_layers: 3"};
const std::vector<Config> kConfigs{
    {"MiniMaxAI--MiniMax-M2.5", 229, "minimax-m2.5", kMtp},
    {"MiniMaxAI--MiniMax-M2.7", 229, "minimax-m2.5", kMtp},
    {"Qwen--Qwen3-0.6B", .596, "qwen3-0.6b"},
    {"Qwen--Qwen3-235B-A22B-FP8", 235.0936, "qwen3-235b-a22b"},
    {"Qwen--Qwen3-30B-A3B-FP8", 30.5321, "qwen3-30b-a3b"},
    {"Qwen--Qwen3-30B-A3B", 30.5321, "qwen3-30b-a3b"},
    {"Qwen--Qwen3-32B-FP8-Static-PerTensor", 32.76, "qwen3-32b"},
    {"Qwen--Qwen3-32B", 32.76, "qwen3-32b"},
    {"Qwen--Qwen3-Coder-480B-A35B-Instruct", 480.2, "qwen3-coder"},
    {"Qwen--Qwen3-VL-2B-Instruct", 2.13, "qwen3-vl-2b"},
    {"Qwen--Qwen3-VL-32B-Instruct", 33.36, "qwen3-vl-32b"},
    {"Qwen--Qwen3-VL-4B-Instruct", 4.44, "qwen3-vl-4b"},
    {"Qwen--Qwen3.5-122B-A10B", 122, "qwen3.5-122b-a10b", {"mtp", "vision"}},
    {"Qwen--Qwen3.5-35B-A3B", 34.66, "qwen3.5-35b-a3b", {"mtp", "vision"}},
    {"Qwen--Qwen3.5-397B-A17B", 397, "qwen3.5-397b-a17b", {"mtp", "vision"}},
    {"XiaomiMiMo--MiMo-7B-Base", 7.83, "mimo-7b", {}, kBias},
    {"deepseek-ai--DeepSeek-R1", 671.026, "deepseek-v3", kMtp, kGroups},
    {"deepseek-ai--DeepSeek-V3", 671.026, "deepseek-v3", kMtp, kGroups},
    {"deepseek-ai--DeepSeek-V4-Pro",
     0,
     "",
     {},
     {"compress_ratios", "q_lora_rank: 1536", "o_lora_rank: 1024", "hc_mult: 4", "num_hash_layers: 3",
      "swiglu_limit: 10.0"}},
    {"google--gemma-4-26B-A4B", 25.75, "gemma4-26b-a4b"},
    {"meta-llama--Llama-4-Maverick-17B-128E-Instruct", 400, "llama4-maverick"},
    {"meta-llama--Meta-Llama-3.1-405B", 405.853, "llama3-405b"},
    {"meta-llama--Meta-Llama-3.1-8B", 8.030, "llama3-8b"},
    {"mistralai--Mixtral-8x7B-v0.1", 46.703, "mixtral-8x7b"},
    {"moonshotai--Kimi-K2-Instruct", 1026.4, "kimi-k2"},
    {"moonshotai--Kimi-K2.5", 1026.871, "kimi-k2.5"},
    {"nvidia--DeepSeek-V3.1-NVFP4", 671.026, "deepseek-v3", kMtp, kGroups},
    {"nvidia--DeepSeek-V4-Flash-NVFP4",
     0,
     "",
     {},
     {"compress_ratios", "q_lora_rank: 1024", "o_lora_rank: 1024", "hc_mult: 4", "num_hash_layers: 3",
      "swiglu_limit: 10.0"}},
    {"nvidia--GLM-5-NVFP4", 744, "glm-5", kMtp},
    {"nvidia--GLM-5.2-NVFP4", 0, "glm-5", kMtp, {"indexer_types"}},
    {"nvidia--Gemma-4-31B-IT-NVFP4", 31.25, "gemma4-31b"},
    {"nvidia--Kimi-K2.6-NVFP4", 1026.871, "kimi-k2.5"},
    {"nvidia--Llama-3.1-70B-Instruct-FP8", 70.554, "llama3-70b"},
    {"nvidia--MiniMax-M2.5-NVFP4", 229, "minimax-m2.5", kMtp},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", 31.6, "nemotron3-nano"},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", 120.6, "nemotron3-super", {}, kModule},
    {"nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8", 550, "nemotron3-ultra", {}, kModule},
    {"nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", 0, "nemotron3-nano", {}, kModule},
    {"nvidia--Qwen3-235B-A22B-NVFP4", 235.0936, "qwen3-235b-a22b"},
    {"nvidia--Qwen3.5-397B-A17B-NVFP4", 397, "qwen3.5-397b-a17b", {"mtp", "vision"}},
    {"nvidia--Qwen3.6-35B-A3B-NVFP4", 35.95, "qwen3.6-35b-a3b"},
    {"openai--gpt-oss-120b", 116.829, "gpt-oss-120b", {}, kOss},
    {"openai--gpt-oss-20b", 20.915, "gpt-oss-20b", {}, kOss},
    {"sgl-project--DeepSeek-V4-Pro-FP8", 0, "", {}, kMore},
    {"stepfun-ai--Step-3.7-Flash", 196.81, "step-3.7-flash", {}, {"num_nextn_predict_layers: 3"}},
    {"zai-org--GLM-5.1-FP8", 744, "glm-5", kMtp},
    {"zai-org--GLM-5.2-FP8", 0, "glm-5", kMtp, {"indexer_types"}},
    {"zai-org--GLM-5", 744, "glm-5", kMtp},
};

std::string path_of(const Config& config) {
  return fmt::format("{}/interchange/hf-config/{}_config.json", TEST_DATA, config.file);
}

void leave_out(models::Transformer& model, const std::string& part) {
  if (part == "mtp")
    model.mtp_layers = 0;
  else
    model.vision.reset();
}

// Where two models differ, key by key; of layers, which one is the first. What all layers share and what each says for
// itself are two ways to say the same.
Words differences(const models::Transformer& a, const models::Transformer& b) {
  Words all;
  static const Words kOfLayers{"layers", "dense_layers", "listed_layers"};
  for (const auto& field : models::model_fields().fields) {
    const bool of_layers =
        field.key.starts_with("mixer.") || std::find(kOfLayers.begin(), kOfLayers.end(), field.key) != kOfLayers.end();
    if (of_layers || field.key == "name" || field.key == "source" || field.key == "sequence") continue;
    const auto here = fields::written(field.get(&a)), there = fields::written(field.get(&b));
    if (here != there) all.push_back(fmt::format("{}: {} and {}", field.key, here, there));
  }
  const auto table = models::layer_table(a), other = models::layer_table(b);
  CHECK(table.of_layer.size() == other.of_layer.size());
  for (std::size_t i = 0; i < std::min(table.of_layer.size(), other.of_layer.size()); ++i)
    if (!(table.rows[table.of_layer[i]].spec == other.rows[other.of_layer[i]].spec)) {
      all.push_back(fmt::format("layer {}", i));
      break;
    }
  return all;
}

}  // namespace

TEST_CASE("every configuration at hand is in the table") {
  std::size_t there = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TEST_DATA) + "/interchange/hf-config"))
    there += entry.path().extension() == ".json";
  CHECK(there == kConfigs.size());
}

TEST_CASE("a configuration of the Hub is the model of the zoo, but for what the latter leaves out") {
  for (const auto& config : kConfigs) {
    if (config.zoo[0] == 0) continue;
    INFO(config.file);
    const auto from = imported(path_of(config));
    auto model = model_of(from);
    for (const auto& part : config.parts) {
      const auto with = model;
      leave_out(model, part);
      CHECK_MESSAGE(!differences(with, model).empty(), part);  // the configuration has it
    }
    const auto zoo = model_of(from, {fmt::format("model={}", config.zoo), "batch.sequence=4096"});
    CHECK(differences(model, zoo) == Words{});
    CHECK(models::parameters(model) == models::parameters(zoo));
  }
}

TEST_CASE("a tower is left out where the user says so") {
  const auto path = path_of({"google--gemma-4-26B-A4B", 0});
  CHECK(model_of(imported(path)).vision.has_value());
  CHECK_FALSE(model_of(imported(path, {"model.vision=null"})).vision.has_value());
}

TEST_CASE("a configuration of the Hub has as many parameters as were published") {
  int compared = 0;
  for (const auto& config : kConfigs) {
    if (config.published == 0) continue;
    INFO(config.file);
    auto model = model_of(imported(path_of(config)));
    for (const auto& part : config.parts) leave_out(model, part);
    CHECK(std::abs(models::parameters(model) / (config.published * 1e9) - 1) < .005);
    ++compared;
  }
  CHECK(compared == 42);
}

TEST_CASE("what a configuration of the Hub says and a scenario cannot is named, and no key is left over") {
  for (const auto& config : kConfigs) {
    INFO(config.file);
    const auto from = imported(path_of(config));
    CHECK(from.formats == Words{"huggingface"});
    CHECK(dropped(from) == config.dropped);
    for (const auto& left : from.draft.unknown()) FAIL_CHECK(left.what);
    for (const auto& left : from.draft.unworded()) CHECK(left.where.line > 0);
    for (const auto& warning : from.warnings) FAIL_CHECK(warning.message);
  }
}

}  // namespace rehearsal::hf_test
