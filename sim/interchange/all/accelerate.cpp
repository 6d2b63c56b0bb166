// The YAML of `accelerate config` (Hugging Face Accelerate, commands/config): how many processes, and how they share
// the states of the training. It says nothing of the model and of the batch.
#include "interchange/deepspeed.hpp"
#include "interchange/format.hpp"
#include "interchange/huggingface/trainer.hpp"
#include "interchange/keys.hpp"

namespace rehearsal::interchange {
namespace {

bool recognises(const Source& source) {
  return source.has({"distributed_type"}) &&
         (source.find("num_processes") || source.find("mixed_precision") || source.find("compute_environment"));
}

void read_deepspeed(Keys deepspeed, ScenarioDraft& draft) {
  const auto stage = deepspeed.integer({"zero_stage"});
  if (stage) draft.say("parallelism.zero", stage->value, *stage->at, stage->word);
  deepspeed.say(Fact::accumulation, {"gradient_accumulation_steps"});
  std::string optimizer = "device";
  for (const auto& [key, states] :
       {std::pair("offload_optimizer_device", "optimizer"), std::pair("offload_param_device", "parameters")})
    if (const auto device = deepspeed.text({key}); device && device->value != "none") {
      const std::string where = device->value == "cpu" ? "host" : device->value;
      draft.say(std::string("training.offload.") + states, where, *device->at, device->word);
      if (std::string_view(states) == "optimizer") optimizer = where;
    }
  // DeepSpeedPlugin (accelerate/utils/dataclasses.py) hands these on and leaves the rest to DeepSpeed.
  if (stage) derive_of_stage(draft, stage->value, optimizer);
  if (const auto file = deepspeed.text({"deepspeed_config_file"}))
    draft.wanted(file->at->where(), "parallelism.zero", file->word + ": " + file->value, "that file; give it, too");
  deepspeed.ignore({"zero3_init_flag", "zero3_save_16bit_model", "gradient_clipping", "deepspeed_multinode_launcher",
                    "deepspeed_hostfile", "offload_*_nvme_path"});
  deepspeed.finish();
}

// MegatronLMPlugin (accelerate/utils/dataclasses.py).
void read_megatron(Keys megatron, ScenarioDraft& draft) {
  megatron.say_integer("parallelism.tensor", {"megatron_lm_tp_degree"});
  megatron.say_integer("parallelism.pipeline", {"megatron_lm_pp_degree"});
  megatron.say(Fact::accumulation, {"megatron_lm_num_micro_batches"});
  megatron.say_boolean("parallelism.sequence", {"megatron_lm_sequence_parallelism"});
  if (const auto again = megatron.boolean({"megatron_lm_recompute_activations"}))
    draft.say("training.recompute", again->value ? "selective" : "none", *again->at, again->word);
  if (const auto shards = megatron.boolean({"megatron_lm_use_distributed_optimizer"}))
    draft.say("parallelism.zero", shards->value ? 1 : 0, *shards->at, shards->word);
  megatron.ignore({"megatron_lm_gradient_clipping"});
  megatron.finish();
}

void read(Sources&, const Source& source, ScenarioDraft& draft) {
  Keys keys(draft, &mapping_of(source));
  keys.say(Fact::world, {"num_processes"});
  keys.say(Fact::nodes, {"num_machines"});
  if (const auto precision = keys.text({"mixed_precision"}))
    draft.say("training.precision", precision->value == "no" ? "fp32" : precision->value, *precision->at,
              precision->word);
  if (const Json* type = draft.find("training.precision"); type && type->is_string() && type->text() == "fp16")
    draft.derive("training.loss_scaling", "dynamic", "fp16: a gradient scaler");
  keys.say(Fact::accumulation, {"gradient_accumulation_steps"});
  const auto kind = keys.text({"distributed_type"});
  const bool deepspeed = kind && kind->value == "DEEPSPEED", fsdp = kind && kind->value == "FSDP",
             megatron = kind && kind->value == "MEGATRON_LM";
  if (deepspeed) read_deepspeed(keys.below("deepspeed_config"), draft);
  if (fsdp) read_fsdp(keys.below("fsdp_config"), draft);
  if (megatron) read_megatron(keys.below("megatron_lm_config"), draft);
  if (auto degrees = keys.below("parallelism_config"); degrees.map()) {
    degrees.say_integer("parallelism.tensor", {"parallelism_config_tp_size"});
    degrees.say_integer("parallelism.context", {"parallelism_config_cp_size"});
    degrees.say(Fact::replicas, {"parallelism_config_dp_replicate_size"});
    degrees.say(Fact::shards, {"parallelism_config_dp_shard_size"});
    degrees.ignore({"parallelism_config_cp_comm_strategy"});
    degrees.finish();
  }
  if (deepspeed)
    draft.derive("framework.use", "deepspeed-2023", "its release is not said; the newest profile of DeepSpeed");
  else if (megatron)
    draft.assume("framework.use", "megatron-lm-2025", "the release of Megatron-LM is not said");
  else
    draft.assume("framework.use", "hf-2024",
                 "its release is not said; the newest profile of transformers and Accelerate");
  keys.ignore({"compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "machine_rank",
               "main_training_function", "main_process_*", "rdzv_backend", "same_network", "tpu_*", "use_cpu",
               "gpu_ids", "dynamo_config", "fsdp_config", "deepspeed_config", "megatron_lm_config",
               "parallelism_config", "num_cpu_threads_per_process"});
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
