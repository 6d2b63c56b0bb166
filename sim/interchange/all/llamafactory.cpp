// LLaMA-Factory's YAML (llamafactory/hparams): transformers' Trainer and PEFT with DeepSpeed or FSDP; or Megatron-Core
// (its "mca" trainer), whose words stand beside the others.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/huggingface/trainer.hpp"

namespace rehearsal::interchange {
namespace {

bool recognises(const Source& source) {
  return source.has({"model_name_or_path"}) && (source.find("finetuning_type") || source.find("stage") ||
                                                source.find("cutoff_len") || source.find("template"));
}

void adapters(Keys& keys, ScenarioDraft& draft) {
  const auto kind = keys.text({"finetuning_type"});
  const auto rank = keys.integer({"lora_rank"});
  const auto modules = keys.list({"lora_target"});
  const auto dropout = keys.number({"lora_dropout"});
  const auto saved = keys.list({"additional_target"});
  const auto bits = keys.integer({"quantization_bit"});
  const auto doubly = keys.boolean({"double_quantization"});
  keys.ignore({"lora_alpha", "lora_*", "loraplus_*", "use_rslora", "use_dora", "pissa_*", "quantization_*",
               "create_new_adapter", "adapter_name_or_path", "freeze_*", "pure_bf16"});
  const std::string word = kind ? kind->value : "lora";  // its default
  if (word == "full") return;
  if (word != "lora") draft.no_word(kind->at->where(), kind->word + ": " + word, "taken as lora");
  if (rank)
    draft.say("training.lora.rank", rank->value, *rank->at, rank->word);
  else
    draft.derive("training.lora.rank", 8, "lora_rank 8, the default");
  if (modules) say_adapted(draft, *modules);
  draft.derive("framework.adapter_dropout", dropout && dropout->value > 0, "lora_dropout");
  if (saved) draft.say("training.lora.ends", true, *saved->at, saved->word);
  if (bits) say_frozen(draft, bits->value, !doubly || doubly->value, *bits->at, bits->word);
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  if (const auto name = keys.text({"model_name_or_path"})) say_model(draft, *name, sources.files());
  if (!keys.say_integer("batch.sequence", {"cutoff_len"}))
    draft.derive("batch.sequence", 2048, "cutoff_len 2048, the default");
  if (const auto packs = keys.boolean({"packing", "neat_packing"})) say_packing(draft, *packs);
  read_training_arguments(keys, draft);
  if (const auto name = keys.text({"optim"})) say_optimizer(draft, *name);
  if (const auto muon = keys.boolean({"use_muon"}); muon && muon->value)
    draft.say("training.optimizer", "muon", *muon->at, muon->word);
  adapters(keys, draft);
  const bool megatron = read_megatron_words(keys, draft);
  if (const auto file = keys.node({"deepspeed"})) read_deepspeed_reference(sources, source, draft, *file);
  if (const auto words = keys.list({"fsdp"}); words && !words->value.empty()) read_fsdp_words(draft, *words);
  if (auto fsdp = keys.below("fsdp_config"); fsdp.map()) read_fsdp(std::move(fsdp), draft);
  const auto liger = keys.boolean({"enable_liger_kernel"}), unsloth = keys.boolean({"use_unsloth"});
  const auto& fast = liger && liger->value ? liger : unsloth;
  const bool fused = fast && fast->value;
  if (fused) {
    draft.say("framework.loss", "linear-fused", *fast->at, fast->word);
    draft.say("training.kernels", "fused", *fast->at, fast->word);
  }
  if (!megatron) {
    assume_trainer(draft, fused);
    const auto off = keys.boolean({"disable_gradient_checkpointing"});
    if (off && off->value)
      draft.derive("training.recompute", "none", off->word + ": true");
    else if (off)
      say_recomputation(draft, {true, off->at, off->word});
    else
      draft.derive("training.recompute", "full", "gradient checkpointing, which LLaMA-Factory turns on");
  }
  if (const auto how = keys.text({"flash_attn"})) say_attention(draft, *how);
  if (const auto stage = keys.text({"stage"}); stage && stage->value != "sft" && stage->value != "pt")
    draft.no_word(stage->at->where(), stage->word + ": " + stage->value, "taken as supervised training");
  for (const char* key : {"use_galore", "use_apollo", "use_badam", "mixture_of_depths", "shift_attn"})
    keys.no_word(key);
  ignore_training_arguments(keys);
  keys.ignore({"max_samples",
               "overwrite_cache",
               "mask_history",
               "train_on_prompt",
               "tokenized_path",
               "media_dir",
               "image_*",
               "video_*",
               "streaming",
               "buffer_size",
               "mix_strategy",
               "interleave_probs",
               "cache_dir",
               "use_fast_tokenizer",
               "resize_vocab",
               "split_special_tokens",
               "low_cpu_mem_usage",
               "hf_hub_token",
               "flash_attn",
               "rope_scaling",
               "disable_gradient_checkpointing",
               "use_reentrant_gc",
               "upcast_*",
               "pref_*",
               "ref_model*",
               "infer_*",
               "predict_with_generate",
               "compute_accuracy",
               "neftune_noise_alpha",
               "enable_thinking",
               "reasoning_effort",
               "ray_*",
               "placement_strategy",
               "resources_per_worker",
               "new_special_tokens",
               "add_tokens",
               "default_system",
               "tool_format",
               "ignore_pad_token_for_loss"});
  keys.finish();
}

}  // namespace

void register_llamafactory(Registry& registry) {
  registry.add({.name = "llamafactory",
                .title = "a configuration of LLaMA-Factory",
                .summary = "LLaMA-Factory's YAML: model by name, batch, adapters, DeepSpeed, FSDP or Megatron-Core",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
