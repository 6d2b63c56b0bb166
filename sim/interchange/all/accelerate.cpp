// The YAML of `accelerate config` (Hugging Face Accelerate, commands/config): how many processes, and how they share
// the states of the training. It says nothing of the model and of the batch.
#include "interchange/format.hpp"
#include "interchange/keys.hpp"

namespace rehearsal::interchange {
namespace {

bool recognises(const Source& source) {
  return source.has({"distributed_type"}) &&
         (source.find("num_processes") || source.find("mixed_precision") || source.find("compute_environment"));
}

// accelerate/utils/constants.py, FSDP_SHARDING_STRATEGY; of FSDP 2 `fsdp_reshard_after_forward` says the same.
void sharding(Keys& fsdp, Draft& draft) {
  const auto strategy = fsdp.text({"fsdp_sharding_strategy"});
  const auto reshard = fsdp.text({"fsdp_reshard_after_forward"});
  const auto& said = reshard ? reshard : strategy;
  if (!said) {
    draft.derive("parallelism.zero", 3, "FSDP shards parameters where nothing else is said");
    return;
  }
  const auto& word = said->value;
  const bool hybrid = word == "HYBRID_SHARD" || word == "_HYBRID_SHARD_ZERO2" || word == "4" || word == "5";
  const bool keeps = word == "SHARD_GRAD_OP" || word == "_HYBRID_SHARD_ZERO2" || word == "2" || word == "5" ||
                     boolean_of(word) == std::optional(false);
  const bool none = strategy && (word == "NO_SHARD" || word == "3");
  draft.say("parallelism.zero", none ? 0 : keeps ? 2 : 3, *said->at, said->word);
  if (hybrid)
    draft.no_word(said->at->where(), said->word + ": " + word,
                  "groups of a node each; --set parallelism.shard=GPUS_OF_A_NODE says so");
}

void read_fsdp(Keys fsdp, Draft& draft) {
  sharding(fsdp, draft);
  if (const auto recompute = fsdp.boolean({"fsdp_activation_checkpointing"}))
    draft.say("training.recompute", recompute->value ? "full" : "none", *recompute->at, recompute->word);
  if (const auto offload = fsdp.boolean({"fsdp_offload_params"}); offload && offload->value)
    for (const char* states : {"parameters", "gradients", "optimizer"})
      draft.say(std::string("training.offload.") + states, "host", *offload->at, offload->word);
  fsdp.no_word("fsdp_forward_prefetch", {}, "the framework's own prefetch is taken");
  fsdp.no_word("fsdp_backward_prefetch", {"BACKWARD_PRE", "1"}, "gathers are taken to come before the backward");
  fsdp.ignore({"fsdp_auto_wrap_policy", "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params", "fsdp_version",
               "fsdp_cpu_ram_efficient_loading", "fsdp_state_dict_type", "fsdp_sync_module_states",
               "fsdp_use_orig_params"});
  fsdp.finish();
}

void read_deepspeed(Keys deepspeed, Draft& draft) {
  deepspeed.say_integer("parallelism.zero", {"zero_stage"});
  deepspeed.say(Fact::accumulation, {"gradient_accumulation_steps"});
  for (const auto& [key, states] :
       {std::pair("offload_optimizer_device", "optimizer"), std::pair("offload_param_device", "parameters")})
    if (const auto device = deepspeed.text({key}); device && device->value != "none")
      draft.say(std::string("training.offload.") + states, device->value == "cpu" ? "host" : device->value, *device->at,
                device->word);
  if (const auto file = deepspeed.text({"deepspeed_config_file"}))
    draft.wanted(file->at->where(), "parallelism.zero", file->word + ": " + file->value, "that file; give it, too");
  deepspeed.ignore({"zero3_init_flag", "zero3_save_16bit_model", "gradient_clipping", "deepspeed_multinode_launcher",
                    "deepspeed_hostfile", "offload_*_nvme_path"});
  deepspeed.finish();
}

void read(Sources&, const Source& source, Draft& draft) {
  Keys keys(draft, &mapping_of(source));
  keys.say(Fact::world, {"num_processes"});
  keys.say(Fact::nodes, {"num_machines"});
  if (const auto precision = keys.text({"mixed_precision"}))
    draft.say("training.precision", precision->value == "no" ? "fp32" : precision->value, *precision->at,
              precision->word);
  keys.say(Fact::accumulation, {"gradient_accumulation_steps"});
  const auto kind = keys.text({"distributed_type"});
  const bool deepspeed = kind && kind->value == "DEEPSPEED", fsdp = kind && kind->value == "FSDP";
  if (deepspeed) read_deepspeed(keys.below("deepspeed_config"), draft);
  if (fsdp) read_fsdp(keys.below("fsdp_config"), draft);
  if (auto degrees = keys.below("parallelism_config"); degrees.map()) {
    degrees.say_integer("parallelism.tensor", {"parallelism_config_tp_size"});
    degrees.say_integer("parallelism.context", {"parallelism_config_cp_size"});
    degrees.say(Fact::replicas, {"parallelism_config_dp_replicate_size"});
    degrees.say(Fact::shards, {"parallelism_config_dp_shard_size"});
    degrees.ignore({"parallelism_config_cp_comm_strategy"});
    degrees.finish();
  }
  if (kind)
    draft.derive("framework.use", deepspeed ? "deepspeed-2023" : "fsdp-2024",
                 deepspeed ? "its release is not said; the newest profile of DeepSpeed"
                           : "its release is not said; the newest profile of FSDP");
  keys.ignore({"compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "machine_rank",
               "main_training_function", "main_process_*", "rdzv_backend", "same_network", "tpu_*", "use_cpu",
               "gpu_ids", "dynamo_config", "fsdp_config", "deepspeed_config", "parallelism_config",
               "num_cpu_threads_per_process"});
  keys.finish();
}

}  // namespace

void register_accelerate(Registry& registry) {
  registry.add({.name = "accelerate",
                .title = "a configuration of Hugging Face Accelerate",
                .summary = "`accelerate config` of Hugging Face: GPUs, FSDP or DeepSpeed, precision",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
