// DeepSpeed's JSON (deepspeed/runtime/config.py, runtime/zero/config.py): how states are split and where they are, the
// batch, the precision. Model and sequence are the training script's. Values that are "auto" are filled in by Hugging
// Face's Trainer (transformers/integrations/deepspeed.py) from its TrainingArguments and the model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/deepspeed.hpp"
#include "interchange/keys.hpp"
#include "interchange/names.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

bool recognises(const Source& source) {
  return source.has({"zero_optimization"}) || source.has({"train_micro_batch_size_per_gpu"}) ||
         (source.kind == Source::Kind::json && source.has({"train_batch_size"}) &&
          (source.find("fp16") || source.find("bf16") || source.find("optimizer")));
}

// Words without quotes, which JSON does not have.
void placeholders(const Node& node, std::vector<const Node*>& all) {
  for (const auto& [key, value] : node.entries) placeholders(*value, all);
  for (const auto* item : node.items) placeholders(*item, all);
  if (node.kind == Node::Kind::scalar && !node.quoted && !number_of(node.text) && !boolean_of(node.text) &&
      !is_none(node))
    all.push_back(&node);
}

void refuse_template(const Source& source) {
  std::vector<const Node*> all;
  if (source.kind == Source::Kind::json) placeholders(*source.tree, all);
  if (all.empty()) return;
  std::vector<std::string> words;
  for (const auto* one : all)
    if (words.size() < 4 && std::find(words.begin(), words.end(), one->text) == words.end()) words.push_back(one->text);
  wrong(*all.front(),
        fmt::format("a template: {} stand for values, which the launch script puts in their places (sed); "
                    "give the file that it writes",
                    fmt::join(words, ", ")));
}

class DeepSpeed {
 public:
  DeepSpeed(const Source& source, ScenarioDraft& draft) : draft_(draft), root_(draft, source.tree) {}

  void read() {
    zero();
    batch();
    precision();
    optimizer();
    checkpoints();
    degrees();
    if (auto compile = root_.below("compile"); compile.map()) {
      compile.no_word("deepcompile");
      if (const auto on = compile.boolean({"enabled"})) draft_.say("framework.compiled", on->value, *on->at, on->word);
    }
    draft_.derive("framework.use", "deepspeed-2023", "its release is not said; the newest profile of DeepSpeed");
    for (const char* key : {"curriculum_learning", "data_efficiency", "elasticity", "compression_training",
                            "quantize_training", "progressive_layer_drop", "hybrid_engine"})
      if (auto section = root_.below(key); section.map() && section.boolean({"enabled"}).value_or(Said<bool>{}).value)
        root_.no_word(key);
    root_.no_word("sparse_gradients");
    root_.no_word("sparse_attention");
    root_.ignore({"steps_per_print",
                  "gradient_clipping",
                  "prescale_gradients",
                  "gradient_predivide_factor",
                  "wall_clock_breakdown",
                  "memory_breakdown",
                  "dump_state",
                  "zero_allow_untested_optimizer",
                  "zero_force_ds_cpu_optimizer",
                  "scheduler",
                  "flops_profiler",
                  "tensorboard",
                  "wandb",
                  "comet",
                  "csv_monitor",
                  "monitor_config",
                  "comms_logger",
                  "aio",
                  "checkpoint",
                  "dataloader_drop_last",
                  "disable_allgather",
                  "autotuning",
                  "amp",
                  "seed",
                  "graph_harvesting",
                  "use_data_before_expert_*",
                  "timers",
                  "$schema",
                  "load_universal_checkpoint",
                  "zero_allow_*"});
    root_.finish();
  }

 private:
  static bool automatic(const std::optional<Said<const Node*>>& said) { return said && said->value->text == "auto"; }

  // A whole number, nothing where it is "auto".
  std::optional<Said<std::int64_t>> amount(Keys& keys, Keys::Names names) {
    return automatic(keys.node(names)) ? std::nullopt : keys.integer(names);
  }

  void zero() {
    const auto whole = root_.node({"zero_optimization"});
    if (whole && whole->value->kind == Node::Kind::scalar) {  // before 0.3
      const auto on = root_.boolean({"zero_optimization"});
      stage_ = on->value ? 1 : 0;
      draft_.say("parallelism.zero", stage_, *on->at, on->word);
      derive_of_stage(draft_, stage_, "device");
      return;
    }
    auto section = root_.below("zero_optimization");
    if (const auto stage = section.integer({"stage"})) {
      stage_ = stage->value;
      if (stage_ < 0 || stage_ > 3)
        wrong(*stage->at, fmt::format("'{}' must be 0 to 3; found {}", stage->word, stage_));
      draft_.say("parallelism.zero", stage_, *stage->at, stage->word);
    } else {
      draft_.derive("parallelism.zero", 0, "zero_optimization.stage 0, the default");
    }
    offload(section);
    reduction(section);
    gathers(section);
    if (const auto size = section.integer({"mics_shard_size"}); size && size->value > 0)
      draft_.say(Fact::shards, size->value, *size->at, size->word);
    section.no_word("mics_hierarchical_params_gather");
    for (const char* key : {"zenflow", "zeropp_loco_param", "leaf_module", "zero_quantized_nontrainable_weights",
                            "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential"})
      section.no_word(key);
    section.ignore({"stage3_gather_*",
                    "gather_16bit_weights_on_model_save",
                    "sub_group_size",
                    "round_robin_gradients",
                    "ignore_unused_parameters",
                    "elastic_checkpoint",
                    "load_from_fp32_weights",
                    "legacy_stage1",
                    "use_multi_rank_bucket_allreduce",
                    "allgather_partitions",
                    "cpu_offload_use_pin_memory",
                    "memory_efficient_linear",
                    "override_module_apply",
                    "log_trace_cache_warnings",
                    "grad_hooks",
                    "pipeline_loading_checkpoint",
                    "enable_sanity_checks",
                    "stage3_module_granularity_threshold",
                    "stage3_partition_stream_chunk_size",
                    "module_granularity_threshold"});
    section.finish();
  }

  void offload(Keys& zero) {
    const auto tier = [&](const char* key, const char* old, const char* states) -> std::string {
      auto section = zero.below(key);
      if (const auto on = zero.boolean({old}); on && on->value && !section.map()) {
        draft_.say(std::string("training.offload.") + states, "host", *on->at, on->word);
        return "host";
      }
      const auto device = section.text({"device"});
      if (!device || device->value == "none") return "device";
      if (device->value != "cpu" && device->value != "nvme")
        wrong(*device->at, fmt::format("'{}' must be cpu, nvme or none; found {}", device->word, device->value));
      const std::string where = device->value == "cpu" ? "host" : "nvme";
      draft_.say(std::string("training.offload.") + states, where, *device->at, device->word);
      section.no_word("super_offload");
      if (const auto ratio = section.number({"ratio"}); ratio && ratio->value < 1) {
        draft_.say("training.offload.optimizer_fraction", ratio->value, *ratio->at, ratio->word);
        partly_ = true;
      }
      section.ignore({"pin_memory", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pipeline*", "fast_init",
                      "cpuadam_cores_perc"});
      section.finish();
      return where;
    };
    const auto optimizer = tier("offload_optimizer", "cpu_offload", "optimizer");
    tier("offload_param", "cpu_offload_param", "parameters");
    derive_of_stage(draft_, stage_, partly_ ? "device" : optimizer);
  }

  void reduction(Keys& zero) {
    if (const auto overlap = zero.boolean({"overlap_comm"}); overlap && stage_ > 0)
      draft_.say("training.overlap.gradients", overlap->value, *overlap->at, overlap->word);
    const auto bucket = zero.node({"reduce_bucket_size"});
    if (automatic(bucket)) {
      draft_.later([stage = stage_](ScenarioDraft& draft, const scenario::Files& files) {
        if (const auto hidden = of_model(draft, "hidden", files); hidden && stage > 0)
          draft.derive("framework.bucket_parameters", *hidden * *hidden,
                       fmt::format("reduce_bucket_size auto: hidden {0} x {0} (trainer_config_finalize)", *hidden));
      });
    } else if (bucket && stage_ > 0) {
      zero.say_integer("framework.bucket_parameters", {"reduce_bucket_size"});
    }
    if (const auto scatter = zero.boolean({"reduce_scatter"}); scatter && stage_ == 1)
      draft_.say("framework.zero1_reduces", scatter->value ? "shards" : "all", *scatter->at, scatter->word);
    if (const auto flat = zero.boolean({"contiguous_gradients"}); flat && stage_ > 0)
      draft_.say("framework.flat_bucket", flat->value, *flat->at, flat->word);
    const auto gathered = amount(zero, {"allgather_bucket_size"});
    const auto reduced = automatic(bucket) || !bucket ? std::nullopt : zero.integer({"reduce_bucket_size"});
    if (gathered && stage_ > 0 && stage_ < 3 && gathered->value != (reduced ? reduced->value : 500'000'000))
      draft_.no_word(gathered->at->where(), fmt::format("{}: {}", gathered->word, gathered->value),
                     "taken as reduce_bucket_size");
  }

  // Of stage 3. Short names are those of the fields, which the configuration takes as well.
  void gathers(Keys& zero) {
    if (const auto size = zero.integer({"zero_hpz_partition_size"}); size && size->value > 1)
      draft_.say("parallelism.secondary_shard", size->value, *size->at, size->word);
    if (const auto quantised = zero.boolean({"zero_quantized_weights"}); quantised && quantised->value)
      draft_.say("training.quantised_gathers", "int8", *quantised->at, quantised->word);
    if (const auto quantised = zero.boolean({"zero_quantized_gradients"}); quantised && quantised->value)
      draft_.say("training.quantised_reductions", "int4", *quantised->at, quantised->word);
    const auto live = amount(zero, {"stage3_max_live_parameters", "max_live_parameters"});
    if (live && live->value == 0 && stage_ == 3)
      draft_.say("training.fsdp.prefetch", 0, *live->at, live->word + ": nothing is fetched ahead");
    const auto ahead = amount(zero, {"stage3_prefetch_bucket_size", "prefetch_bucket_size"});
    if (ahead && ahead->value == 0 && stage_ == 3) draft_.say("training.fsdp.prefetch", 0, *ahead->at, ahead->word);
    zero.ignore({"stage3_param_persistence_threshold", "param_persistence_threshold", "stage3_max_reuse_distance",
                 "max_reuse_distance", "stage3_model_persistence_threshold", "model_persistence_threshold"});
  }

  // train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x replicas; of two that are missing
  // accumulation is 1 (_set_batch_related_parameters).
  void batch() {
    const std::string trainer = " of Hugging Face's TrainingArguments";
    const auto micro_node = root_.node({"train_micro_batch_size_per_gpu"});
    const auto all_node = root_.node({"train_batch_size"});
    const auto steps_node = root_.node({"gradient_accumulation_steps"});
    const auto all = amount(root_, {"train_batch_size"});
    const auto micro = amount(root_, {"train_micro_batch_size_per_gpu"});
    const auto steps = amount(root_, {"gradient_accumulation_steps"});
    if (all) draft_.say("batch.global", all->value, *all->at, all->word);
    if (micro) draft_.say("batch.micro", micro->value, *micro->at, micro->word);
    if (steps) draft_.say(Fact::accumulation, steps->value, *steps->at, steps->word);
    if (automatic(micro_node))
      draft_.wanted(micro_node->at->where(), "batch.micro", micro_node->word + " auto",
                    "per_device_train_batch_size" + trainer);
    if (!steps && !all && automatic(steps_node))
      draft_.wanted(steps_node->at->where(), "batch.global", steps_node->word + " auto",
                    "gradient_accumulation_steps" + trainer + "; batch.global is it x micro-batch x replicas");
    else if (!steps && !automatic(steps_node) && (all.has_value() != micro.has_value() || automatic(all_node)))
      draft_.derive(Fact::accumulation, 1, "gradient_accumulation_steps 1, where neither it nor the rest says");
  }

  void precision() {
    const auto enabled = [&](Keys section) {
      const auto node = section.node({"enabled"});
      const bool unknown = automatic(node);
      auto on = unknown ? std::nullopt : section.boolean({"enabled"});
      return std::tuple{node, unknown, on && on->value};
    };
    auto fp16 = root_.below("fp16");
    auto bf16 = root_.has("bf16") ? root_.below("bf16") : root_.below("bfloat16");
    const auto [half, half_auto, half_on] = enabled(fp16);
    const auto [brain, brain_auto, brain_on] = enabled(bf16);
    root_.ignore({"bf16", "bfloat16"});
    if (half_on && brain_on)
      wrong(*half->at,
            fmt::format("fp16 and bf16 ({}) are both enabled; DeepSpeed takes one", to_text(brain->at->where())));
    if (half_on)
      draft_.say("training.precision", "fp16", *half->at, "fp16.enabled");
    else if (brain_on)
      draft_.say("training.precision", "bf16", *brain->at, "bf16.enabled");
    else if (half_auto || brain_auto)
      draft_.wanted((brain_auto ? brain : half)->at->where(), "training.precision",
                    std::string(brain_auto ? "bf16" : "fp16") + ".enabled auto",
                    "bf16 and fp16 of Hugging Face's TrainingArguments, or mixed_precision of Accelerate");
    else
      draft_.derive("training.precision", "fp32", "neither fp16 nor bf16 is enabled");
    const auto scale = fp16.number({"loss_scale"});
    fp16.ignore({"loss_scale_window", "initial_scale_power", "hysteresis", "consecutive_hysteresis", "min_loss_scale",
                 "auto_cast", "fp16_master_weights_and_grads", "enabled"});
    fp16.finish();
    bf16.ignore({"enabled", "immediate_grad_update", "check_grad_overflow"});
    bf16.finish();
    auto types = root_.below("data_types");
    const auto summed = types.text({"grad_accum_dtype"});
    const auto sent = root_.text({"communication_data_type"});
    if (summed) draft_.say("training.gradient_precision", narrow(*summed), *summed->at, summed->word);
    if (sent && (!summed || narrow(*sent) != narrow(*summed)))
      draft_.no_word(sent->at->where(), sent->word + ": " + sent->value, "gradients travel in what they add up in");
    draft_.later([fixed = scale && scale->value > 0](ScenarioDraft& draft, const scenario::Files&) {
      const Json* type = draft.find("training.precision");
      if (type && type->is_string() && type->text() == "fp16")
        draft.derive("training.loss_scaling", fixed ? "none" : "dynamic",
                     fixed ? "fp16.loss_scale: a scale that stays" : "fp16.loss_scale 0");
    });
  }

  static std::string narrow(const Said<std::string>& type) {
    const auto& word = type.value;
    if (word == "fp32" || word == "float32" || word == "float") return "fp32";
    if (word == "fp16" || word == "float16" || word == "half") return "fp16";
    if (word == "bf16" || word == "bfloat16" || word == "bfp16") return "bf16";
    wrong(*type.at, fmt::format("'{}' must be fp32, fp16 or bf16; found {}", type.word, word));
  }

  void optimizer() {
    auto section = root_.below("optimizer");
    const auto type = section.text({"type"});
    section.ignore({"params", "legacy_fusion"});
    section.finish();
    if (!type) return;
    const auto word = small_letters(type->value);
    const std::string ours = word == "adam" || word == "adamw" || word == "fusedadam" || word == "deepspeedcpuadam"
                                 ? "adamw"
                             : word == "muon" || word == "sgd" ? word
                                                               : "";
    if (!ours.empty())
      draft_.say("training.optimizer", ours, *type->at, type->word);
    else
      draft_.no_word(type->at->where(), type->word + ": " + type->value, "taken as adamw");
  }

  // It says how checkpoints are kept where the model's code has some; whether it has is not said.
  void checkpoints() {
    auto section = root_.below("activation_checkpointing");
    const auto cut = section.boolean({"partition_activations"});
    const auto host = section.boolean({"cpu_checkpointing"});
    const auto contiguous = section.boolean({"contiguous_memory_optimization"});
    section.ignore({"number_checkpoints", "synchronize_checkpoint_boundary", "profile"});
    section.finish();
    const bool cuts = cut && cut->value, leaves = host && host->value;
    if (cuts || leaves || (contiguous && contiguous->value))
      draft_.derive("training.recompute", "full", "activation_checkpointing is configured");
    if (contiguous && contiguous->value) draft_.say("training.defragment", true, *contiguous->at, contiguous->word);
    if (leaves && !cuts) draft_.say("training.offload.activations", "host", *host->at, host->word);
    if (!cuts) return;
    draft_.later([cut, leaves, host](ScenarioDraft& draft, const scenario::Files&) {
      if (draft.integer("parallelism.tensor", 1) > 1) {
        draft.say("training.partition_activations", leaves ? "host" : "device", *cut->at, cut->word);
        return;
      }
      draft.no_word(cut->at->where(), cut->word, "without tensor parallelism nothing is cut");
      if (leaves) draft.say("training.offload.activations", "host", *host->at, host->word);
    });
  }

  void degrees() {
    if (const auto size = root_.integer({"sequence_parallel_size"}); size && size->value > 1) {
      draft_.say("parallelism.context", size->value, *size->at, size->word);
      draft_.derive("training.context", "all-to-all", "sequence_parallel_size: Ulysses");
    }
    if (auto tensor = root_.below("tensor_parallel"); tensor.map()) {
      tensor.say_integer("parallelism.tensor", {"autotp_size"});
      tensor.ignore({"tp_grain_size", "preset_model", "partition_config", "tp"});
      tensor.finish();
    }
    if (auto pipeline = root_.below("pipeline"); pipeline.map()) {
      const auto stages = amount(pipeline, {"stages"});
      if (stages) draft_.say("parallelism.pipeline", stages->value, *stages->at, stages->word);
      pipeline.no_word("partition", {"best", "uniform", "parameters"});
      pipeline.ignore(
          {"seed_layers", "activation_checkpoint_interval", "pipe_partitioned", "grad_partitioned", "use_reentrant"});
      pipeline.finish();
    }
  }

  ScenarioDraft& draft_;
  Keys root_;
  std::int64_t stage_ = 0;
  bool partly_ = false;
};

void read(Sources&, const Source& source, ScenarioDraft& draft) {
  refuse_template(source);
  DeepSpeed(source, draft).read();
}

}  // namespace

void register_deepspeed(Registry& registry) {
  registry.add({.name = "deepspeed",
                .title = "a configuration of DeepSpeed",
                .summary = "DeepSpeed's JSON: ZeRO, offload, batch, precision",
                .recognises = recognises,
                .read = read,
                .write = deepspeed_text});
}

}  // namespace rehearsal::interchange
