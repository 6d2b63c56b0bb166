// A scenario in DeepSpeed's words, the counterpart of all/deepspeed.cpp, which has the sources.
#include "interchange/deepspeed.hpp"

#include <fmt/format.h>

namespace rehearsal::interchange {
namespace {

const char* deepspeed_type(Precision precision) {
  return precision == Precision::fp16 ? "fp16" : precision == Precision::bf16 ? "bf16" : "fp32";
}

class DeepSpeedWriter {
 public:
  DeepSpeedWriter(const scenario::Scenario& scenario, Lacks& lacks)
      : s_(scenario), c_(*scenario.concrete), t_(c_.training), p_(scenario.parallelism), lacks_(lacks) {}

  std::string text() {
    root_ = Json::object();
    root_["train_batch_size"] = s_.batch.global;
    root_["train_micro_batch_size_per_gpu"] = s_.batch.micro;
    root_["gradient_accumulation_steps"] = s_.microbatches();
    if (p_.context > 1) root_["sequence_parallel_size"] = p_.context;
    if (p_.tensor > 1) root_["tensor_parallel"] = Json{{"autotp_size", p_.tensor}};
    if (p_.pipeline > 1) root_["pipeline"] = Json{{"stages", p_.pipeline}};
    root_["zero_optimization"] = zero();
    precision();
    optimizer();
    checkpoints();
    root_["gradient_clipping"] = 1.;
    others();
    return root_.dump(2) + "\n";
  }

 private:
  void lack(const std::string& what) { lacks_.push_back(what); }

  Json zero() {
    Json zero = Json::object();
    zero["stage"] = p_.zero;
    offload(zero);
    if (p_.zero == 0) return zero;
    zero["overlap_comm"] = c_.framework.gradient_overlap != models::GradientOverlap::never;
    zero["contiguous_gradients"] = c_.framework.flat_bucket;
    if (p_.zero == 1) zero["reduce_scatter"] = c_.framework.zero1_reduces == models::Zero1Reduces::shards;
    const auto each = bytes_per_element(t_.gradient_precision);
    const auto elements = t_.bucket ? t_.bucket->count() / each : c_.framework.bucket_parameters;
    if (elements > 0) zero["reduce_bucket_size"] = elements, zero["allgather_bucket_size"] = elements;
    if (p_.zero < 3) return zero;
    if (p_.shard > 0) zero["mics_shard_size"] = p_.shard;
    if (p_.secondary_shard > 0) zero["zero_hpz_partition_size"] = p_.secondary_shard;
    if (t_.quantised_gathers) zero["zero_quantized_weights"] = true;
    if (t_.quantised_reductions) zero["zero_quantized_gradients"] = true;
    if (t_.prefetch == 0) zero["stage3_prefetch_bucket_size"] = 0;
    if (t_.prefetch.value_or(0) > 0)
      lack("training.fsdp.prefetch: stage3_prefetch_bucket_size counts elements, and not layers");
    return zero;
  }

  static const char* device(Tier tier) { return tier == Tier::nvme ? "nvme" : "cpu"; }

  void offload(Json& zero) {
    const auto& o = t_.offload;
    if (o.optimizer != Tier::device) {
      Json section{{"device", device(o.optimizer)}, {"pin_memory", true}};
      if (o.optimizer_fraction < 1) section["ratio"] = o.optimizer_fraction;
      zero["offload_optimizer"] = section;
    }
    if (o.parameters != Tier::device)
      zero["offload_param"] = Json{{"device", device(o.parameters)}, {"pin_memory", true}};
    const auto follows = p_.zero >= 2 && o.optimizer_fraction == 1 ? o.optimizer : Tier::device;
    if (o.gradients != follows) lack("training.offload.gradients: they are where the optimizer is");
    if (o.activation_share || o.activation_layers) lack("training.offload.activations: checkpoints leave, or nothing");
  }

  void precision() {
    // Products in 8 or 4 bits are the model's code's, whose weights DeepSpeed has in 16.
    const bool fp16 = t_.precision == Precision::fp16, fp32 = t_.precision == Precision::fp32, bf16 = !fp16 && !fp32;
    if (bf16 && t_.precision != Precision::bf16)
      lack("training.precision: DeepSpeed's JSON has fp16 and bf16; bf16 is written");
    root_["bf16"] = Json{{"enabled", bf16}};
    Json half{{"enabled", fp16}};
    if (fp16) half["loss_scale"] = t_.scales_loss() ? 0 : 1;
    root_["fp16"] = half;
    root_["data_types"] = Json{{"grad_accum_dtype", deepspeed_type(t_.gradient_precision)}};
    if (t_.overflow_rate) lack("training.loss_scaling.overflow_rate: follows from the training");
  }

  void optimizer() {
    const auto& name = t_.optimizer->name;
    const bool known = name == "adamw" || name == "muon" || name == "sgd";
    if (!known) lack("training.optimizer " + std::string(name) + ": AdamW is written");
    root_["optimizer"] = Json{{"type", name == "muon" ? "Muon" : name == "sgd" ? "SGD" : "AdamW"}};
  }

  void checkpoints() {
    const bool cuts = t_.cuts_checkpoints(), leave = t_.checkpoints_on() != Tier::device;
    if (t_.recompute != models::Recompute::none && !(cuts || leave || t_.defragment))
      lack("training.recompute: the model's code has checkpoints, or has none");
    if (!cuts && !leave && !t_.defragment) return;
    root_["activation_checkpointing"] = Json{{"partition_activations", cuts},
                                             {"cpu_checkpointing", leave},
                                             {"contiguous_memory_optimization", t_.defragment}};
  }

  void others() {
    lack("model, batch.sequence, training.attention and training.kernels: the training script has them");
    if (!c_.framework.name.starts_with("deepspeed"))
      lack(fmt::format("framework {}: how DeepSpeed behaves differs", c_.framework.name));
    if (p_.sequence) lack("parallelism.sequence: automatic tensor parallelism has none");
    if (p_.context > 1 && t_.context != models::ContextKind::all_to_all)
      lack("training.context: sequence_parallel_size is all-to-all");
    if (p_.pipeline > 1) lack("parallelism.pipeline: also the num_stages of PipelineModule in the training script");
    if (p_.chunks > 1) lack("parallelism.chunks: DeepSpeed's pipelines have one stage a rank");
    if (p_.pipeline > 1 && s_.schedule.name != "1f1b")
      lack("schedule " + s_.schedule.name + ": DeepSpeed has 1f1b alone, and runs it");
    lack_others(s_,
                {"version",
                 "name",
                 "cluster*",
                 "simulate*",
                 "plan*",
                 "model*",
                 "batch.global",
                 "batch.micro",
                 "batch.sequence",
                 "parallelism.data",
                 "parallelism.zero",
                 "parallelism.shard",
                 "parallelism.tensor",
                 "parallelism.sequence",
                 "parallelism.context",
                 "parallelism.pipeline",
                 "parallelism.chunks",
                 "parallelism.secondary_shard",
                 "schedule",
                 "schedule.name",
                 "framework",
                 "framework.use",
                 "framework.bucket_parameters",
                 "framework.flat_bucket",
                 "framework.zero1_reduces",
                 "training.precision",
                 "training.gradient_precision",
                 "training.optimizer",
                 "training.bucket",
                 "training.offload.optimizer",
                 "training.offload.optimizer_fraction",
                 "training.offload.gradients",
                 "training.offload.parameters",
                 "training.offload.activations*",
                 "training.overlap.gradients",
                 "training.quantised_gathers",
                 "training.quantised_reductions",
                 "training.fsdp.prefetch",
                 "training.loss_scaling*",
                 "training.partition_activations",
                 "training.defragment",
                 "training.recompute*",
                 "training.context",
                 "training.learning_rate",
                 "training.weight_decay",
                 "training.attention",
                 "training.kernels"},
                lacks_);
  }

  const scenario::Scenario& s_;
  const scenario::Concrete& c_;
  const models::Training& t_;
  const plan::Parallelism& p_;
  Lacks& lacks_;
  Json root_;
};

}  // namespace

std::string deepspeed_text(const scenario::Scenario& scenario, Lacks& lacks) {
  return DeepSpeedWriter(scenario, lacks).text();
}

}  // namespace rehearsal::interchange
