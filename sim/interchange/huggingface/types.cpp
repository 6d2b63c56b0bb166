// Types of models that transformers, or code that models bring along, knows: transformers/models/TYPE/modeling_TYPE.py.
#include <algorithm>
#include <iterator>

#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

struct Row {
  std::string_view name;
  unsigned traits;
};
using T = HfType;
constexpr unsigned kGpt2 = T::gpt | T::learned | T::tied, kBert = kGpt2 | T::embedding_norm | T::encoder;
constexpr Row kTypes[] = {
    {"gpt2", kGpt2},
    {"gpt_bigcode", kGpt2},
    {"gpt_neo", kGpt2},
    {"opt", kGpt2},
    {"gptj", T::gpt | T::parallel},
    {"codegen", T::gpt | T::parallel},
    {"gpt_neox", T::gpt},
    {"bloom", T::gpt | T::embedding_norm | T::tied},
    {"falcon", T::gpt | T::tied},
    {"mpt", T::gpt | T::tied},
    {"phi", T::gpt | T::parallel},
    {"bert", kBert},
    {"roberta", kBert},
    {"xlm-roberta", kBert},
    {"camembert", kBert},
    {"distilbert", kBert},
    {"starcoder2", T::ungated | T::tied},
    {"nemotron", T::ungated},
    {"arcee", T::ungated},
    {"nemotron_h", T::ungated | T::half_layers},
    {"gemma", T::tied},
    {"gemma2", T::tied | T::every_second},
    {"gemma3", T::tied | T::qk_norm},
    {"gemma4", T::tied | T::qk_norm | T::beside_experts},
    {"cohere", T::tied | T::parallel},
    {"cohere2", T::tied | T::parallel},
    {"qwen3", T::qk_norm},
    {"qwen3_moe", T::qk_norm},
    {"qwen3_vl", T::qk_norm},
    {"qwen3_vl_moe", T::qk_norm},
    {"qwen3_next", T::qk_norm | T::gate},
    {"qwen3_5", T::qk_norm},
    {"qwen3_5_moe", T::qk_norm},
    {"olmo2", T::qk_norm},
    {"olmo3", T::qk_norm},
    {"olmoe", T::qk_norm},
    {"exaone4", T::qk_norm},
    {"gpt_oss", T::sinks | T::every_second},
    {"llama4", T::shared_expert},
    {"step3p5", T::dense_modules},
    {"step3p7", T::dense_modules},
    {"minimax", T::lightning},
    {"minimax_text_01", T::lightning},
};
// Llamas, with experts or without, that their keys describe.
constexpr std::string_view kPlain[] = {"apertus",
                                       "baichuan",
                                       "bailing_moe",
                                       "bamba",
                                       "dbrx",
                                       "deepseek",
                                       "deepseek_ref",
                                       "deepseek_v2",
                                       "deepseek_v3",
                                       "deepseek_v32",
                                       "deepseek_v4",
                                       "ernie4_5",
                                       "ernie4_5_moe",
                                       "exaone",
                                       "glm",
                                       "glm4",
                                       "glm4_moe",
                                       "glm_moe_dsa",
                                       "granite",
                                       "granitemoe",
                                       "granitemoehybrid",
                                       "granitemoeshared",
                                       "grok-1",
                                       "hunyuan_v1_dense",
                                       "hunyuan_v1_moe",
                                       "internlm2",
                                       "internlm3",
                                       "kimi_k2",
                                       "kimi_k25",
                                       "kimi_linear",
                                       "llama",
                                       "mamba2",
                                       "mimo",
                                       "mimo_v2_flash",
                                       "minimax_m2",
                                       "mistral",
                                       "mistral3",
                                       "mixtral",
                                       "olmo",
                                       "phi3",
                                       "phimoe",
                                       "qwen2",
                                       "qwen2_5_vl",
                                       "qwen2_moe",
                                       "qwen2_vl",
                                       "seed_oss",
                                       "smollm3",
                                       "stablelm",
                                       "yi"};

}  // namespace

HfType hf_type(std::string_view name) {
  auto base = name;
  constexpr std::string_view kText = "_text";  // of the part of a model with a tower
  if (base.ends_with(kText)) base.remove_suffix(kText.size());
  for (const auto& row : kTypes)
    if (row.name == base) return {std::string(base), row.traits, true};
  const bool plain = std::find(std::begin(kPlain), std::end(kPlain), base) != std::end(kPlain);
  return {std::string(base), 0, plain};
}

}  // namespace rehearsal::interchange
