// The arguments of Hugging Face's Trainer, as `TrainingArguments.to_json_string()` writes them and `args.json` of many
// scripts keeps them: batch, precision, optimizer, recomputation, DeepSpeed or FSDP. The model is in its config.json.
#include "interchange/huggingface/trainer.hpp"

namespace rehearsal::interchange {
namespace {

// Trainers on top of this one have its words too, and some of their own (a model by its name, data sets).
bool recognises(const Source& source) {
  return source.has({"output_dir", "per_device_train_batch_size", "lr_scheduler_type", "adam_beta1"}) &&
         !source.find("model_name_or_path") && !source.find("model_type");
}

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, source.tree);
  read_training_arguments(keys, draft);
  if (const auto name = keys.text({"optim"})) say_optimizer(draft, *name);
  if (const auto again = keys.boolean({"gradient_checkpointing"}))
    draft.say("training.recompute", again->value ? "full" : "none", *again->at, again->word);
  if (const auto file = keys.node({"deepspeed"})) read_deepspeed_reference(sources, source, draft, *file);
  if (const auto words = keys.list({"fsdp"}); words && !words->value.empty()) read_fsdp_words(draft, *words);
  if (auto fsdp = keys.below("fsdp_config"); fsdp.map()) read_fsdp(std::move(fsdp), draft);
  const auto liger = keys.boolean({"use_liger_kernel"}), compiled = keys.boolean({"torch_compile"});
  if (liger && liger->value) {
    draft.say("framework.loss", "linear-fused", *liger->at, liger->word);
    draft.say("training.kernels", "fused", *liger->at, liger->word);
  } else if (compiled && compiled->value) {
    draft.say("training.kernels", "fused", *compiled->at, compiled->word);
  }
  assume_trainer(draft, (liger && liger->value) || (compiled && compiled->value));
  const auto precision = draft.origin("training.precision");
  const bool casts = precision && precision->basis == Basis::said, engine = keys.has("deepspeed") || keys.has("fsdp");
  if (casts && !engine)
    draft.derive("framework.fp32_stream", true,
                 precision->how + ": autocast over weights in fp32; norms, rotations and sums stay as the weights");
  const auto* word = source.find("bf16");
  if (word && precision && precision->basis == Basis::derived)
    draft.no_word(word->where(), "bf16: false, fp16: false",
                  "taken as weights in fp32; of a model that is loaded in bf16 all is in 16 bits: --set "
                  "training.precision=bf16 --set training.master_copy=false --set training.moments=bf16 --set "
                  "training.gradient_precision=bf16");
  ignore_training_arguments(keys);
  keys.ignore({"accelerator_config",
               "average_tokens_*",
               "batch_eval_metrics",
               "debug",
               "enable_jit_*",
               "length_column_*",
               "liger_kernel_config",
               "log_*",
               "neftune_*",
               "optim_target_*",
               "parallelism_config",
               "prediction_loss_only",
               "project",
               "restore_*",
               "skip_memory_*",
               "torch_compile_*",
               "torch_empty_*",
               "trackio_*",
               "train_sampling_*",
               "use_cache",
               "group_by_length",
               "use_mps_device",
               "use_legacy_*",
               "fp16_*",
               "half_precision_*",
               "mp_parameters",
               "ray_*",
               "sortish_*",
               "split_batches",
               "tpu_*",
               "torchdynamo",
               "xpu_*",
               "_n_gpu"});
  keys.finish();
}

}  // namespace

void register_hf_arguments(Registry& registry) {
  registry.add(
      {.name = "hf-arguments",
       .title = "TrainingArguments of Hugging Face's Trainer",
       .summary = "TrainingArguments.to_json_string(): batch, precision, optimizer, recomputation, DeepSpeed or FSDP",
       .recognises = recognises,
       .read = read});
}

}  // namespace rehearsal::interchange
