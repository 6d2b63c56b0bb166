// ms-swift: the YAML of `swift sft --config`, and args.json, which a run leaves in its folder (swift/arguments):
// Hugging Face's Trainer and PEFT with DeepSpeed, or Megatron-Core.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/huggingface/trainer.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

bool recognises(const Source& source) {
  const auto* model = source.find("model");
  return model && model->kind == Node::Kind::scalar &&
         (source.find("train_type") || source.find("tuner_type") || source.find("max_length") ||
          source.find("per_device_train_batch_size"));
}

void adapters(Keys& keys, ScenarioDraft& draft, const char* usual) {
  const auto kind = keys.text({"tuner_type", "train_type", "sft_type"});
  const auto rank = keys.integer({"lora_rank"});
  const auto modules = keys.list({"target_modules"});
  const auto dropout = keys.number({"lora_dropout"});
  const auto saved = keys.list({"modules_to_save"});
  const auto bits = keys.integer({"quant_bits", "quantization_bit"});
  const auto doubly = keys.boolean({"bnb_4bit_use_double_quant"});
  keys.ignore({"lora_alpha", "lora_*", "use_rslora", "use_dora", "bnb_4bit_*", "quant_method", "target_regex",
               "adapters", "tuner_backend", "init_weights", "freeze_parameters*", "trainable_parameters*"});
  const std::string word = kind ? kind->value : usual;
  if (word == "full") return;
  if (word != "lora") draft.no_word(kind->at->where(), kind->word + ": " + word, "taken as lora");
  if (rank)
    draft.say("training.lora.rank", rank->value, *rank->at, rank->word);
  else
    draft.derive("training.lora.rank", 8, "lora_rank 8, the default");
  if (modules) say_adapted(draft, *modules);
  draft.derive("framework.adapter_dropout", !dropout || dropout->value > 0, "lora_dropout 0.05, where it is not said");
  if (saved && !saved->value.empty()) draft.say("training.lora.ends", true, *saved->at, saved->word);
  if (bits && bits->value > 0) say_frozen(draft, bits->value, !doubly || doubly->value, *bits->at, bits->word);
}

// Names of swift/llm/ds_config: zero0 to zero3, zero2_offload, zero3_offload.
void deepspeed(Sources& sources, const Source& source, ScenarioDraft& draft, const Said<const Node*>& said) {
  const auto& word = said.value->text;
  const bool preset = said.value->kind == Node::Kind::scalar && word.starts_with("zero") && word.size() > 4 &&
                      word[4] >= '0' && word[4] <= '3' && word.find('.') == word.npos;
  if (!preset) return read_deepspeed_reference(sources, source, draft, said);
  const int stage = word[4] - '0';
  draft.derive("framework.use", "deepspeed-2023", said.word + ": the newest profile of DeepSpeed");
  draft.say("parallelism.zero", stage, *said.at, said.word + ": " + word);
  if (!word.ends_with("_offload")) return;
  draft.say("training.offload.optimizer", "host", *said.at, said.word + ": " + word);
  if (stage >= 2) draft.derive("training.offload.gradients", "host", word + ": gradients go where the optimizer is");
  if (stage == 3) draft.say("training.offload.parameters", "host", *said.at, said.word + ": " + word);
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  if (const auto name = keys.text({"model", "model_id_or_path"})) say_model(draft, *name, sources.files());
  keys.say_integer("batch.sequence", {"max_length"});
  if (const auto packs = keys.boolean({"packing"})) say_packing(draft, *packs);
  // Of Megatron-SWIFT, global_batch_size is over all replicas.
  keys.say_integer("batch.global", {"global_batch_size"});
  const bool megatron = read_megatron_words(keys, draft);
  const bool said = keys.has("bf16") || keys.has("fp16");
  read_training_arguments(keys, draft);
  if (const auto type = keys.text({"torch_dtype"}); type && !said) {
    const auto& word = type->value;
    draft.say("training.precision",
              word == "bfloat16"  ? "bf16"
              : word == "float16" ? "fp16"
                                  : "fp32",
              *type->at, type->word);
    if (word == "float16") draft.derive("training.loss_scaling", "dynamic", type->word + ": a gradient scaler");
  }
  if (const auto name = keys.text({"optim"})) say_optimizer(draft, *name);
  adapters(keys, draft, megatron ? "full" : "lora");
  if (const auto how = keys.node({"deepspeed"})) deepspeed(sources, source, draft, *how);
  if (const auto size = keys.integer({"zero_hpz_partition_size"}); size && size->value > 1)
    draft.say("parallelism.secondary_shard", size->value, *size->at, size->word);
  keys.say_integer("parallelism.tensor", {"deepspeed_autotp_size"});
  if (const auto words = keys.list({"fsdp"}); words && !words->value.empty() && words->value.front()->text != "")
    read_fsdp_words(draft, *words);
  if (auto fsdp = keys.below("fsdp_config"); fsdp.map()) read_fsdp(std::move(fsdp), draft);
  if (const auto size = keys.integer({"sequence_parallel_size"}); size && size->value > 1) {
    draft.say("parallelism.context", size->value, *size->at, size->word);
    draft.derive("training.context", "all-to-all", size->word + ": Ulysses");
  }
  const auto liger = keys.boolean({"use_liger_kernel"});
  if (liger && liger->value) {
    draft.say("framework.loss", "linear-fused", *liger->at, liger->word);
    draft.say("training.kernels", "fused", *liger->at, liger->word);
  }
  const auto again = keys.boolean({"gradient_checkpointing"});
  if (!megatron) {
    assume_trainer(draft, liger && liger->value);
    if (again)
      say_recomputation(draft, *again);
    else
      draft.derive("training.recompute", "full", "gradient_checkpointing true, the default");
  }
  if (const auto how = keys.text({"attn_impl"})) say_attention(draft, *how);
  keys.no_word("rlhf_type", {}, "taken as supervised training");
  keys.say(Fact::world, {"global_world_size"});
  ignore_training_arguments(keys);
  keys.ignore({"model_*",
               "template*",
               "task_type",
               "split_dataset_ratio",
               "truncation_strategy",
               "system",
               "streaming",
               "freeze_*",
               "train_dataloader_shuffle",
               "use_reentrant",
               "vit_*",
               "aligner_*",
               "padding_*",
               "ENV",
               "cache_*",
               "loss_*",
               "custom_*",
               "external_plugins",
               "new_special_tokens",
               "max_pixels",
               "attn_impl",
               "rope_scaling",
               "device_map",
               "local_repo_path",
               "check_model",
               "create_checkpoint_symlink",
               "ddp_*",
               "strict",
               "columns",
               "load_from_cache_file",
               "lazy_tokenize",
               "acc_*",
               "agent_template",
               "norm_bbox",
               "response_prefix",
               "use_chat_template",
               "val_dataset*",
               "interleave_prob",
               "stopping_strategy",
               "shuffle_*",
               "download_mode",
               "temperature",
               "top_*",
               "repetition_penalty",
               "max_new_tokens",
               "stream",
               "stop_words",
               "logprobs",
               "num_beams",
               "add_version",

               "gradient_checkpointing*",
               "predict_with_generate",
               "metric*",
               "optimizer",
               "vllm_*",
               "galore_*",
               "lisa_*",
               "use_galore",
               "ckpt_dir"});
  keys.finish();
}

}  // namespace

void register_swift(Registry& registry) {
  registry.add({.name = "swift",
                .title = "a configuration of ms-swift",
                .summary = "ms-swift's YAML or the args.json of a run: model by name, batch, adapters, DeepSpeed",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
