#include "interchange/huggingface/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "interchange/names.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

void offload_all(ScenarioDraft& draft, const Node& at, const std::string& word) {
  for (const char* states : {"parameters", "gradients", "optimizer"})
    draft.say(std::string("training.offload.") + states, "host", at, word);
}

// accelerate/utils/constants.py, FSDP_SHARDING_STRATEGY; of FSDP 2 `reshard_after_forward` says the same. SHARD_GRAD_OP
// shards parameters, too, outside of the passes, and keeps what the forward has gathered until the backward
// (torch/distributed/fsdp/api.py).
void fsdp_sharding(Keys& fsdp, ScenarioDraft& draft) {
  const auto strategy = fsdp.text({"fsdp_sharding_strategy", "sharding_strategy"});
  const auto reshard = fsdp.text({"fsdp_reshard_after_forward", "reshard_after_forward"});
  const auto& said = reshard ? reshard : strategy;
  if (!said) {
    draft.derive("parallelism.zero", 3, "FSDP shards parameters where nothing else is said");
    return;
  }
  const auto& word = said->value;
  const bool hybrid = word == "HYBRID_SHARD" || word == "HYBRID_SHARD_ZERO2" || word == "_HYBRID_SHARD_ZERO2" ||
                      word == "4" || word == "5";
  const bool keeps = word == "SHARD_GRAD_OP" || word.ends_with("SHARD_ZERO2") || word == "2" || word == "5" ||
                     boolean_of(word) == std::optional(false);
  const bool none = word == "NO_SHARD" || (!reshard && word == "3");
  if (!hybrid && !keeps && !none && word != "FULL_SHARD" && word != "1" && boolean_of(word) != std::optional(true))
    wrong(*said->at,
          fmt::format("'{}' must be FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, true or false; found {}",
                      said->word, word));
  draft.say("parallelism.zero", none ? 0 : 3, *said->at, said->word);
  if (keeps) draft.say("training.fsdp.reshard_after_forward", false, *said->at, said->word);
  if (!hybrid) return;
  draft.later([at = said->at, what = said->word + ": " + word](ScenarioDraft& all, const scenario::Files&) {
    const auto &world = all[Fact::world], &nodes = all[Fact::nodes];
    if (all[Fact::shards]) return;
    if (world && nodes && nodes->value > 0)
      all.derive(Fact::shards, world->value / nodes->value, what + ": groups of a node each");
    else
      all.no_word(at->where(), what, "groups of a node each; --set parallelism.shard=GPUS_OF_A_NODE says so");
  });
}

// Products in fp8 of a model in 16 bits, which other words and other files say; torchao's and Transformer Engine's
// usual recipe has a scale for each tensor.
void eight_bits(Keys& keys, ScenarioDraft& draft, const Said<bool>& on) {
  draft.later([on](ScenarioDraft& all, const scenario::Files&) {
    const auto* from = all.origin("training.precision");
    if (from && from->basis == Basis::said && from->where.line == 0) return;  // of the user
    all.remove("training.precision");
    all.say("training.precision", "fp8", *on.at, on.word);
  });
  const auto backend = keys.text({"fp8_backend"});
  draft.derive(
      "framework.fp8_scaling", "tensorwise",
      backend ? fmt::format("{} {}: its usual recipe", backend->word, backend->value) : on.word + ": the usual recipe");
  if (const auto gather = keys.boolean({"fp8_enable_fsdp_float8_all_gather"}))
    draft.say("framework.fp8_gather", gather->value, *gather->at, gather->word);
}

}  // namespace

void read_fsdp(Keys fsdp, ScenarioDraft& draft) {
  fsdp_sharding(fsdp, draft);
  if (const auto again = fsdp.boolean({"fsdp_activation_checkpointing", "activation_checkpointing"}))
    say_recomputation(draft, *again);
  if (const auto offload = fsdp.boolean({"fsdp_offload_params", "offload_params"}); offload && offload->value)
    offload_all(draft, *offload->at, offload->word);
  for (const char* key : {"fsdp_forward_prefetch", "forward_prefetch"})
    fsdp.no_word(key, {"false", "False"}, "the framework's own prefetch is taken");
  for (const char* key : {"fsdp_backward_prefetch", "backward_prefetch"})
    fsdp.no_word(key, {"BACKWARD_PRE", "backward_pre", "1"}, "gathers are taken to come before the backward");
  fsdp.ignore({"fsdp_auto_wrap_policy",
               "auto_wrap_policy",
               "fsdp_transformer_layer_cls_to_wrap",
               "transformer_layer_cls_to_wrap",
               "fsdp_min_num_params",
               "min_num_params",
               "fsdp_version",
               "version",
               "fsdp_cpu_ram_efficient_loading",
               "cpu_ram_efficient_loading",
               "fsdp_state_dict_type",
               "state_dict_type",
               "fsdp_final_state_dict_type",
               "final_state_dict_type",
               "fsdp_sync_module_states",
               "sync_module_states",
               "fsdp_use_orig_params",
               "use_orig_params",
               "fsdp_limit_all_gathers",
               "limit_all_gathers",
               "mixed_precision_policy",
               "xla*"});
  fsdp.finish();
}

void read_fsdp_words(ScenarioDraft& draft, const Said<std::vector<const Node*>>& words) {
  for (const Node* one : words.value) {
    std::string_view rest = one->text;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(' '), rest.size());
      const auto word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const std::string what = words.word + ": " + std::string(word);
      if (word == "full_shard" || word == "shard_grad_op" || word == "no_shard")
        draft.derive("parallelism.zero", word == "no_shard" ? 0 : 3, what);
      else if (word.starts_with("hybrid_shard"))
        draft.derive("parallelism.zero", 3, what),
            draft.no_word(one->where(), what, "groups of a node each; --set parallelism.shard=GPUS_OF_A_NODE says so");
      else if (word == "offload")
        offload_all(draft, *one, what);
      else if (!word.empty() && word != "auto_wrap")
        draft.not_understood(one->where(), what);
      if (word == "shard_grad_op" || word == "hybrid_shard_zero2")
        draft.derive("training.fsdp.reshard_after_forward", false, what);
    }
  }
}

void say_model(ScenarioDraft& draft, const Said<std::string>& name, const scenario::Files& files) {
  if (const auto ours = model_named(name.value, files))
    draft.say("model.use", *ours, *name.at, name.word + ": " + name.value);
  else
    draft.wanted(name.at->where(), "model", name.word + ": " + name.value,
                 "the config.json of that model on the Hub; give that file, too (rehearse list models has those that "
                 "are known)");
}

void say_optimizer(ScenarioDraft& draft, const Said<std::string>& name) {
  const auto word = small_letters(name.value);
  const auto has = [&word](std::string_view part) { return word.find(part) != word.npos; };
  const bool adam = has("adam") && !has("adafactor") && !has("ademamix") && !has("galore") && !has("apollo");
  if (adam || word == "sgd" || word == "adalomo" || word == "lomo" || word == "muon")
    draft.say("training.optimizer", adam ? "adamw" : word, *name.at, name.word + ": " + name.value);
  else
    draft.no_word(name.at->where(), name.word + ": " + name.value, "taken as adamw");
  if (adam && (has("8bit") || has("4bit")))
    draft.say("training.moments", "int8", *name.at, name.word + ": " + name.value);
  if (has("4bit")) draft.no_word(name.at->where(), name.word + ": " + name.value, "taken as 8 bits");
  if (has("paged"))
    draft.no_word(name.at->where(), name.word + ": " + name.value, "states are taken to stay on the GPU");
  // Of the profile of transformers' Trainer, which steps tensor by tensor.
  if (adam && (has("fused") || has("8bit")))
    draft.say("framework.foreach_step", false, *name.at, name.word + ": " + name.value);
}

void say_adapted(ScenarioDraft& draft, const Said<std::vector<const Node*>>& modules) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kOurs{{{"q_proj", "linear_qkv"},
                                                                                        {"k_proj", "linear_qkv"},
                                                                                        {"v_proj", "linear_qkv"},
                                                                                        {"qkv_proj", "linear_qkv"},
                                                                                        {"o_proj", "linear_proj"},
                                                                                        {"out_proj", "linear_proj"},
                                                                                        {"gate_proj", "linear_fc1"},
                                                                                        {"up_proj", "linear_fc1"},
                                                                                        {"gate_up_proj", "linear_fc1"},
                                                                                        {"down_proj", "linear_fc2"}}};
  auto list = Json::array();
  std::vector<std::string_view> all, theirs;
  for (const Node* one : modules.value) {
    std::string_view rest = one->text;
    while (!rest.empty()) {  // also "q_proj,v_proj"
      const auto end = std::min(rest.find(','), rest.size());
      auto word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      while (word.starts_with(' ')) word.remove_prefix(1);
      if (word == "all" || word == "all-linear") return;  // of ours, too, where none are listed
      word = word.substr(word.rfind('.') == word.npos ? 0 : word.rfind('.') + 1);
      const auto* found = std::find_if(kOurs.begin(), kOurs.end(), [word](const auto& o) { return o.first == word; });
      if (found == kOurs.end()) {
        draft.no_word(one->where(), modules.word + ": " + std::string(word), "has no adapter here");
        continue;
      }
      theirs.push_back(word);
      if (std::find(all.begin(), all.end(), found->second) == all.end())
        all.push_back(found->second), list.push_back(found->second);
    }
  }
  if (all.empty()) return;
  draft.say("training.lora.modules", std::move(list), *modules.at, modules.word);
  const auto count = [&theirs](std::initializer_list<std::string_view> parts) {
    return std::count_if(parts.begin(), parts.end(), [&theirs](const auto part) {
      return std::find(theirs.begin(), theirs.end(), part) != theirs.end();
    });
  };
  if (const auto n = count({"q_proj", "k_proj", "v_proj"}); n == 1 || n == 2)
    draft.no_word(modules.at->where(), modules.word + ": a part of q_proj, k_proj and v_proj", "all three are taken");
  if (count({"gate_proj", "up_proj"}) == 1)
    draft.no_word(modules.at->where(), modules.word + ": one of gate_proj and up_proj", "both are taken");
}

void say_frozen(ScenarioDraft& draft, std::int64_t bits, bool doubly, const Node& at, const std::string& word) {
  if (bits == 8 || bits == 4)
    draft.say("training.frozen_precision", bits == 8 ? "int8" : doubly ? "nf4-double" : "nf4", at, word);
  else
    draft.no_word(at.where(), fmt::format("{}: {} bits", word, bits), "frozen weights have 16");
}

void say_attention(ScenarioDraft& draft, const Said<std::string>& name) {
  const auto word = small_letters(name.value);
  const auto has = [&word](std::string_view part) { return word.find(part) != word.npos; };
  if (word == "eager" || word == "disabled")
    draft.say("training.attention", "unfused", *name.at, name.word);
  else if (has("flash") || has("fa2") || has("fa3") || has("sdpa") || has("flex") || has("xformers"))
    draft.say("training.attention", "flash", *name.at, name.word);
  else if (word != "auto")
    draft.not_understood(name.at->where(), name.word + ": " + name.value);
  if (has("attn3") || has("attention_3") || has("fa3"))
    draft.say("framework.attention_kernel", "flash-3", *name.at, name.word);
}

void say_recomputation(ScenarioDraft& draft, const Said<bool>& said) {
  if (said.value)
    draft.say("training.recompute", "full", *said.at, said.word);
  else
    draft.derive("training.recompute", "none", said.word + ": false");
}

void read_deepspeed_reference(Sources& sources, const Source& source, ScenarioDraft& draft,
                              const Said<const Node*>& said) {
  if (said.value->kind == Node::Kind::map) {
    const Source inside{.name = source.name, .text = "", .kind = source.kind, .tree = said.value};
    registry().at("deepspeed").read(sources, inside, draft);
    return;
  }
  draft.derive("framework.use", "deepspeed-2023", said.word + ": the newest profile of DeepSpeed");
  draft.wanted(said.at->where(), "parallelism.zero", said.word + ": " + said.value->text, "that file; give it, too");
}

void say_packing(ScenarioDraft& draft, const Said<bool>& packs) {
  draft.no_word(packs.at->where(), fmt::format("{}: {}", packs.word, packs.value),
                packs.value
                    ? "sequences are taken as one document each; --set batch.lengths={lognormal: [6, 1]} with "
                      "batch.packing=pack and batch.document_mask=true has several"
                    : "sequences are taken to be full; --set batch.lengths={lognormal: [6, 1]} has shorter ones");
}

void read_training_arguments(Keys& keys, ScenarioDraft& draft) {
  keys.say_integer("batch.micro", {"per_device_train_batch_size", "micro_batch_size"});
  keys.say(Fact::accumulation, {"gradient_accumulation_steps"});
  if (const auto steps = keys.integer({"max_steps"}); steps && steps->value > 0)
    draft.say("job.steps", steps->value, *steps->at, steps->word);
  const auto is_on = [](const std::optional<Said<std::string>>& said) {
    return said && boolean_of(said->value) == std::optional(true);
  };
  const auto bf16 = keys.text({"bf16", "bfloat16"}), fp16 = keys.text({"fp16", "float16"}),
             pure = keys.text({"pure_bf16"});
  const bool automatic = bf16 && bf16->value == "auto", full = is_on(pure) || (bf16 && bf16->value == "full");
  const auto& whole = is_on(pure) ? pure : bf16;
  if (full) {  // weights, and so gradients and states of the optimizer, in 16 bits, where it has no say of its own
    draft.say("training.master_copy", false, *whole->at, whole->word);
    draft.derive("training.gradient_precision", "bf16", whole->word + ": gradients are as their parameters");
    draft.derive("training.moments", "bf16", whole->word + ": states are as their parameters");
  }
  if (full || is_on(bf16))
    draft.say("training.precision", "bf16", *whole->at, whole->word);
  else if (is_on(fp16))
    draft.say("training.precision", "fp16", *fp16->at, fp16->word);
  else if (automatic)
    draft.derive("training.precision", "bf16", "bf16 auto: GPUs since Ampere have it");
  else if (bf16 || fp16)
    draft.derive("training.precision", "fp32", "neither bf16 nor fp16 is on");
  if (const auto fp8 = keys.boolean({"fp8"}); fp8 && fp8->value) eight_bits(keys, draft, *fp8);
  if (is_on(fp16) && !full && !is_on(bf16)) draft.derive("training.loss_scaling", "dynamic", "fp16: a gradient scaler");
}

bool read_megatron_words(Keys& keys, ScenarioDraft& draft) {
  bool any = false;
  for (const auto& [theirs, ours] :
       {std::pair("tensor_model_parallel_size", "tensor"), std::pair("pipeline_model_parallel_size", "pipeline"),
        std::pair("expert_model_parallel_size", "expert"), std::pair("expert_tensor_parallel_size", "expert_tensor")})
    any |= keys.say_integer(std::string("parallelism.") + ours, {theirs});
  const auto chunks = keys.integer({"virtual_pipeline_model_parallel_size"});
  const auto optimizer = keys.boolean({"use_distributed_optimizer"});
  const auto how = keys.text({"recompute_granularity"});
  const auto method = keys.text({"recompute_method"});
  const auto layers = keys.integer({"recompute_num_layers"});
  const auto sends = keys.text({"moe_token_dispatcher_type"});
  if (!any) return false;
  draft.derive("framework.use", "megatron-2025", "Megatron-Core, whose release is not said");
  keys.say_integer("parallelism.context", {"context_parallel_size"});
  keys.say_boolean("parallelism.sequence", {"sequence_parallel"});
  keys.say_boolean("training.overlap.gradients", {"overlap_grad_reduce"});
  if (chunks && chunks->value > 1) {
    draft.say("parallelism.chunks", chunks->value, *chunks->at, chunks->word);
    draft.derive("schedule", "interleaved-1f1b", chunks->word + ": Megatron-Core's schedule of several stages a rank");
  }
  if (optimizer) draft.say("parallelism.zero", optimizer->value ? 1 : 0, *optimizer->at, optimizer->word);
  const auto gathers = keys.boolean({"overlap_param_gather"});
  if (gathers && optimizer && optimizer->value)
    draft.say("training.overlap.parameters", gathers->value, *gathers->at, gathers->word);
  if (how) draft.say("training.recompute.mode", how->value, *how->at, how->word);
  if (layers && method && method->value == "block")
    draft.say("training.recompute.layers", layers->value, *layers->at, layers->word);
  else if (layers && layers->value > 1)
    draft.no_word(layers->at->where(), fmt::format("{}: {}", layers->word, layers->value),
                  "groups of several layers are recomputed as if each were one");
  if (sends && sends->value != "alltoall")
    draft.no_word(sends->at->where(), sends->word + ": " + sends->value, "tokens are sent by all-to-all");
  keys.ignore({"bias_activation_fusion", "apply_rope_fusion", "moe_grouped_gemm", "moe_aux_loss_coeff", "moe_router_*",
               "moe_permute_fusion", "cross_entropy_loss_fusion", "masked_softmax_fusion",
               "gradient_accumulation_fusion", "attention_backend", "use_mca"});
  return true;
}

void assume_trainer(ScenarioDraft& draft, bool fused_kernels) {
  draft.later([](ScenarioDraft& all, const scenario::Files&) {
    if (!all.has("training.lora")) return;
    for (const char* states : {"parameters", "gradients", "optimizer"}) {
      const auto key = std::string("training.offload.") + states;
      if (const auto* from = all.origin(key); from && from->where.line > 0)
        all.no_word(from->where, from->how + ": " + states,
                    "what is frozen, and adapters, are taken to stay on the GPU");
      all.remove(key);
    }
  });
  draft.assume("framework.use", "hf-2024", "its release is not said; the newest profile of transformers' Trainer");
  if (!fused_kernels)
    draft.assume("training.kernels", "unfused",
                 "norms, rotations and activations of transformers are operations one by one");
}

void ignore_training_arguments(Keys& keys) {
  keys.ignore({"output_dir",
               "overwrite_output_dir",
               "num_train_epochs",
               "num_epochs",
               "learning_rate",
               "lr_*",
               "weight_decay",
               "warmup_*",
               "max_grad_norm",
               "adam_*",
               "logging_*",
               "save_*",
               "saves_*",
               "eval_*",
               "evals_*",
               "per_device_eval_*",
               "do_*",
               "seed",
               "data_seed",
               "dataset*",
               "dataloader_*",
               "preprocessing_*",
               "report_to",
               "run_name",
               "resume_*",
               "ddp_*",
               "remove_unused_*",
               "metric_for_*",
               "greater_*",
               "load_best_*",
               "push_to_*",
               "hub_*",
               "local_rank",
               "disable_tqdm",
               "trust_remote_code",
               "template*",
               "plot_loss",
               "tf32",
               "val_*",
               "gradient_checkpointing_kwargs",
               "include_*",
               "wandb_*",
               "swanlab_*",
               "bf16_full_eval",
               "fp16_full_eval",
               "label_*",
               "full_determinism",
               "no_cuda",
               "use_cpu",
               "world_size",
               "optim_args",
               "auto_find_*",
               "past_index",
               "jit_mode_*",
               "ignore_data_skip"});
}

}  // namespace rehearsal::interchange
