// The YAML of nanotron (Hugging Face), which has the model, the layout, the batch and the optimizer in one file:
// src/nanotron/config/config.py. Its model is a configuration as transformers has them.
#include <fmt/format.h>

#include "interchange/format.hpp"
#include "interchange/huggingface/config.hpp"

namespace rehearsal::interchange {
namespace {

bool recognises(const Source& source) { return source.has({"model.model_config", "parallelism", "tokens"}); }

void read_model(Keys keys, ScenarioDraft& draft) {
  if (const auto type = keys.text({"dtype"})) {
    const auto& word = type->value;
    const char* precision = word == "bfloat16"  ? "bf16"
                            : word == "float16" ? "fp16"
                            : word == "float32" ? "fp32"
                            : word == "float8"  ? "fp8"
                                                : nullptr;
    if (!precision)
      wrong(*type->at, fmt::format("'{}' is bfloat16, float16, float32 or float8; found {}", type->word, word));
    draft.say("training.precision", precision, *type->at, type->word);
  }
  // pad_to of every tensor rank's slice (nanotron/trainer.py, _vocab_size_with_padding).
  keys.say(Fact::vocabulary_unit, {"make_vocab_size_divisible_by"});
  if (const auto bucket = keys.integer({"ddp_bucket_cap_mb"}))
    draft.say("training.bucket", fmt::format("{}MiB", bucket->value), *bucket->at, bucket->word);
  Keys config = keys.below("model_config");
  std::string name = "llama";
  for (const auto& [key, type] : {std::pair("is_llama_config", "llama"), std::pair("is_qwen2_config", "qwen2"),
                                  std::pair("is_starcoder2_config", "starcoder2")})
    if (const auto is = config.boolean({key}); is && is->value) name = type;
  if (const auto kernel = config.text({"_attn_implementation"}))
    draft.say("training.attention", kernel->value == "eager" ? "unfused" : "flash", *kernel->at, kernel->word);
  config.no_word("_use_doc_masking", {}, "documents do not see each other; batch.lengths says how long they are");
  if (const auto how = config.text({"moe_config.token_dispatcher_type"}); how && how->value != "alltoall")
    draft.no_word(how->at->where(), how->word + ": " + how->value, "tokens are taken as sent by an all-to-all");
  read_hf_model(config, hf_type(name));
  ignore_hf_keys(config), config.finish();
  keys.ignore({"init_method", "dtype"});
  keys.finish();
}

// config/parallelism_config.py; its degrees fold as ours do (parallel/context.py).
void read_layout(Keys keys, ScenarioDraft& draft) {
  keys.say_integer("parallelism.data", {"dp"});
  keys.say_integer("parallelism.tensor", {"tp"});
  keys.say_integer("parallelism.pipeline", {"pp"});
  keys.say_integer("parallelism.context", {"context_parallel_size"});
  if (draft.has("model.experts")) {
    keys.say_integer("parallelism.expert", {"expert_parallel_size"});
    keys.say_integer("parallelism.expert_tensor", {"expert_tensor_parallel_size"});
  } else {
    keys.ignore({"expert_parallel_size", "expert_tensor_parallel_size"});
  }
  const auto tensor = draft.integer("parallelism.tensor", 1), pipeline = draft.integer("parallelism.pipeline", 1);
  const auto engine = keys.text({"pp_engine"});
  if (engine && engine->value != "1f1b" && engine->value != "afab")
    wrong(*engine->at, fmt::format("'{}' is 1f1b or afab; found {}", engine->word, engine->value));
  if (pipeline > 1 && engine)
    draft.say("schedule", engine->value == "1f1b" ? "1f1b" : "gpipe", *engine->at, engine->word + ": " + engine->value);
  else if (pipeline > 1)
    draft.derive("schedule", "gpipe", "nanotron's default, afab");
  // ParallelContext._init_process_group_with_moe: data is the outermost axis; without experts pipeline is.
  if (pipeline > 1 && draft.has("model.experts")) {
    auto axes = Json::array();
    for (const char* axis : {"tensor", "context", "expert", "pipeline", "data"}) axes.push_back(axis);
    draft.derive("placement", axes, "nanotron's groups of models with experts");
  }
  const auto mode = keys.text({"tp_mode"});
  const bool scatters = mode && (mode->value == "REDUCE_SCATTER" || mode->value == "reduce_scatter");
  if (mode && !scatters && mode->value != "ALL_REDUCE" && mode->value != "all_reduce")
    wrong(*mode->at, fmt::format("'{}' is ALL_REDUCE or REDUCE_SCATTER; found {}", mode->word, mode->value));
  if (mode && tensor > 1) draft.say("parallelism.sequence", scatters, *mode->at, mode->word + ": " + mode->value);
  if (const auto async = keys.boolean({"tp_linear_async_communication"}); async && tensor > 1 && scatters)
    draft.say("training.overlap.tensor", async->value, *async->at, async->word);
  if (const auto again = keys.boolean({"tp_recompute_allgather"}); again && tensor > 1 && scatters)
    draft.say("framework.saves_gathered", !again->value, *again->at, again->word);
  const auto layers = keys.boolean({"recompute_layer"}), experts = keys.boolean({"moe_layer_recompute"});
  if (layers) draft.say("training.recompute.mode", layers->value ? "full" : "none", *layers->at, layers->word);
  if (experts && experts->value && !(layers && layers->value)) {
    draft.remove("training.recompute");
    draft.say("training.recompute.modules", Json::array().push_back("moe"), *experts->at, experts->word);
  }
  keys.finish();
}

void read_optimizer(Keys keys, ScenarioDraft& draft) {
  keys.say_integer("parallelism.zero", {"zero_stage"});
  // Gradients add up in fp32 beside a copy of the parameters in fp32, or neither is there
  // (optim/gradient_accumulator.py).
  if (const auto wide = keys.boolean({"accumulate_grad_in_fp32"})) {
    const auto* precision = draft.find("training.precision");
    const bool half = precision && precision->text() == "fp16";
    draft.say("training.gradient_precision", wide->value ? "fp32" : half ? "fp16" : "bf16", *wide->at, wide->word);
    if (!wide->value) draft.say("training.master_copy", false, *wide->at, wide->word);
  }
  Keys factory = keys.below("optimizer_factory");
  if (const auto name = factory.text({"name"})) {
    if (name->value == "adamW" || name->value == "sgd")
      draft.say("training.optimizer", name->value == "sgd" ? "sgd" : "adamw", *name->at, name->word);
    else
      draft.no_word(name->at->where(), name->word + ": " + name->value, "taken as adamw");
  }
  factory.ignore({"adam_*", "torch_adam_is_fused"});
  factory.finish();
  keys.ignore({"clip_grad", "learning_rate_scheduler", "weight_decay*"});
  keys.finish();
}

void read_tokens(Keys keys) {
  keys.say_integer("batch.micro", {"micro_batch_size"});
  keys.say(Fact::accumulation, {"batch_accumulation_per_replica"});
  keys.say_integer("model.sequence", {"sequence_length"});
  keys.ignore({"limit_*", "train_steps", "val_check_interval"});
  keys.finish();
}

void read(Sources&, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, &mapping_of(source));
  for (const auto key : {"model.model_config", "parallelism", "tokens"})
    if (!keys.has(key))
      wrong(*keys.map(), fmt::format("'{}' is missing; a run of nanotron has it (config.yaml of a checkpoint)", key));
  read_model(keys.below("model"), draft);
  read_layout(keys.below("parallelism"), draft);
  read_optimizer(keys.below("optimizer"), draft);
  read_tokens(keys.below("tokens"));
  draft.derive("framework.use", "unknown", "no profile describes nanotron");
  keys.ignore({"checkpoints", "data_stages", "general", "lighteval", "logging", "metrics_logging", "profiler",
               "s3_upload", "tokenizer"});
  keys.finish();
}

}  // namespace

void register_nanotron(Registry& registry) {
  registry.add({.name = "nanotron",
                .title = "a configuration of nanotron",
                .summary = "the YAML of a run of nanotron: model, layout, batch, optimizer",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
