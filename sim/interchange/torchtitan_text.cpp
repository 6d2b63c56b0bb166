// A scenario in torchtitan's words, the counterpart of all/torchtitan.cpp, which has the sources.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interchange/torchtitan.hpp"
#include "plan/partition.hpp"

namespace rehearsal::interchange {

namespace {

// torchtitan/models/NAME/__init__.py: names and flavors of the models that are also in models/zoo.
struct Flavor {
  const char *ours, *name, *flavor;
};
constexpr std::array<Flavor, 12> kFlavors{{{"llama3-8b", "llama3", "8B"},
                                           {"llama3-70b", "llama3", "70B"},
                                           {"llama3-405b", "llama3", "405B"},
                                           {"deepseek-v3", "deepseek_v3", "671B"},
                                           {"qwen3-0.6b", "qwen3", "0.6B"},
                                           {"qwen3-32b", "qwen3", "32B"},
                                           {"qwen3-30b-a3b", "qwen3", "30B-A3B"},
                                           {"qwen3-235b-a22b", "qwen3", "235B-A22B"},
                                           {"gpt-oss-20b", "gpt_oss", "20b"},
                                           {"gpt-oss-120b", "gpt_oss", "120b"},
                                           {"llama4-maverick", "llama4", "17bx128e"},
                                           {"llama2-7b", "llama2", "7B"}}};

class TorchtitanWriter {
 public:
  TorchtitanWriter(const scenario::Scenario& scenario, Lacks& lacks)
      : s_(scenario), c_(*scenario.concrete), p_(scenario.parallelism), lacks_(lacks) {}

  std::string text() {
    section("job");
    put("description", Json(s_.name));
    model();
    optimizer();
    training();
    parallelism();
    recomputation();
    compilation();
    if (c_.training.precision == Precision::fp8) quantisation();
    others();
    return "# Written by rehearse. Since 2026-02 torchtitan takes a function of its registry and these as arguments:\n"
           "# --module " +
           module_ + " --config CONFIG" + arguments_ + "\n" + text_;
  }

 private:
  void section(const std::string& name) {
    section_ = name;
    text_ += "\n[" + name + "]\n";
  }
  void put(const std::string& key, const Json& value) { text_ += key + " = " + value.dump() + "\n"; }
  // Also one of the arguments of today.
  void say(const std::string& key, const Json& value) {
    put(key, value);
    arguments_ += fmt::format(" --{}.{} {}", section_, key, value.is_string() ? value.text() : value.dump());
  }
  void lack(const std::string& what) { lacks_.push_back(what); }

  void model() {
    section("model");
    const auto* known =
        std::find_if(kFlavors.begin(), kFlavors.end(), [this](const auto& one) { return c_.model.name == one.ours; });
    if (known != kFlavors.end()) {
      module_ = known->name;
      put("name", known->name), put("flavor", known->flavor);
    } else {
      module_ = "MODEL";
      std::vector<std::string> names;
      for (const auto& one : kFlavors) names.emplace_back(one.ours);
      lack(
          fmt::format("model {}: torchtitan has flavors of {}. Add this one to torchtitan/models, and its name and "
                      "flavor to the file: without them torchtitan trains its debugmodel",
                      c_.model.name, fmt::join(names, ", ")));
      text_ += "# name and flavor: as the model is called in torchtitan/models, once it is there\n";
    }
    auto converters = Json::array();
    if (c_.training.precision == Precision::fp8)
      converters.push_back(mx() ? "quantize.linear.mx" : "quantize.linear.float8");
    put("converters", converters);
  }

  bool mx() const { return c_.framework.fp8_scaling == models::Fp8Scaling::mx; }

  void optimizer() {
    section("optimizer");
    const auto& name = c_.training.optimizer->name;
    if (name != "adamw" && name != "muon") lack("training.optimizer " + std::string(name) + ": AdamW is written");
    put("name", name == "muon" ? "Muon" : "AdamW");
    put("implementation", c_.framework.foreach_step ? "foreach" : "fused");
    if (c_.training.optimizer_in_backward) put("early_step_in_backward", true);
  }

  void training() {
    const auto& t = c_.training;
    section("training");
    const bool piped = p_.pipeline > 1;
    say("local_batch_size", s_.batch.micro * (piped ? s_.microbatches() : 1));
    say("global_batch_size", s_.batch.global);
    say("seq_len", s_.batch.sequence);
    if (s_.job && s_.job->steps) say("steps", std::int64_t(s_.job->steps->value()));
    const bool narrow = !t.master_copy && t.moments == models::Moments::bf16;
    if (narrow) say("dtype", "bfloat16");
    if (!narrow && (!t.master_copy || t.moments != models::Moments::fp32))
      lack("training.master_copy and training.moments: torchtitan has all of the states in fp32, or all in bf16");
    if (narrow ? t.gradient_precision != Precision::bf16 : t.gradient_precision != Precision::fp32)
      lack("training.gradient_precision: that of the parameters");
    if (t.precision == Precision::fp16 || t.precision == Precision::fp4)
      lack("training.precision: torchtitan has bf16, fp32, and fp8 by a converter");
    say("mixed_precision_param", t.precision == Precision::fp32 ? "float32" : "bfloat16");
    const auto& o = t.offload;
    const bool all = o.parameters == Tier::host && o.gradients == Tier::host && o.optimizer == Tier::host;
    if (all) say("enable_cpu_offload", true);
    if ((!all && o.states()) || o.activations != Tier::device)
      lack("training.offload: torchtitan sends parameters, gradients and states to the host together, or none");
  }

  void parallelism() {
    section("parallelism");
    const auto& t = c_.training;
    const auto shard = p_.shard > 0 ? p_.shard : p_.data;
    const bool sharded = p_.zero > 0;
    say("data_parallel_replicate_degree", sharded ? p_.data / shard : p_.data);
    say("data_parallel_shard_degree", !sharded ? 1 : p_.shard > 0 ? shard : -1);
    if (p_.zero == 1 || p_.zero == 2)
      lack(fmt::format("parallelism.zero {}: fully_shard shards parameters, too", p_.zero));
    if (sharded && shard == 1 && p_.data > 1)
      lack("parallelism.shard 1: without replicas that share, parameters are not sharded");
    if (!sharded && p_.context > 1) lack("parallelism.zero 0: torchtitan shards over context ranks");
    if (sharded) say("fsdp_reshard_after_forward", reshard());
    say("tensor_parallel_degree", p_.tensor);
    if (p_.tensor > 1 && !p_.sequence) lack("parallelism.sequence false: torchtitan's tensor parallelism has it");
    if (p_.tensor > 1) say("enable_async_tensor_parallel", c_.framework.async_tensor && compiled());
    if (c_.framework.async_tensor && !compiled())
      lack("training.overlap.tensor: without torch.compile torchtitan has none");
    say("context_parallel_degree", p_.context);
    if (p_.context > 1) {
      if (t.context == models::ContextKind::all_to_all) lack("training.context all-to-all: all-gather is written");
      say("context_parallel_rotate_method", t.context == models::ContextKind::ring ? "alltoall" : "allgather");
      if (!t.context_balance) lack("training.context_balance false: torchtitan's TOML always balances");
    }
    say("expert_parallel_degree", p_.expert);
    if (p_.expert_tensor > 1) put("expert_tensor_parallel_degree", p_.expert_tensor);
    pipeline();
    if (!p_.layouts.empty()) lack("stages: torchtitan lays out all stages alike");
  }

  const char* reshard() const {
    if (p_.zero < 3) return "never";
    const auto& said = c_.training.reshard_after_forward;
    if (p_.pipeline > 1) return said.value_or(true) ? "always" : "default";
    return !said ? "default" : *said ? "always" : "never";
  }

  void pipeline() {
    say("pipeline_parallel_degree", p_.pipeline);
    if (p_.pipeline == 1) return;
    const auto* known = std::find_if(kTorchSchedules.begin(), kTorchSchedules.end(), [this](const auto& one) {
      return s_.schedule.name == one.ours && one.several == (p_.chunks > 1);
    });
    const char* substitute = p_.chunks > 1 ? "Interleaved1F1B" : "1F1B";
    if (s_.schedule.imported)
      lack("schedule.file: give its path as pipeline_parallel_schedule_csv");
    else if (known == kTorchSchedules.end())
      lack(fmt::format("schedule {}, {}: torch.distributed.pipelining has {}; {} is written", s_.schedule.name,
                       p_.chunks > 1 ? "several stages a rank" : "one stage a rank",
                       fmt::join(torch_schedules(p_.chunks > 1), ", "), substitute));
    say("pipeline_parallel_schedule", known != kTorchSchedules.end() ? known->theirs : substitute);
    say("pipeline_parallel_microbatch_size", s_.batch.micro);
    if (c_.partition.kind == plan::Partition::Kind::balanced) {
      lack("partition balanced: depends on times; layers are dealt out evenly");
      return;
    }
    std::vector<std::string> warnings;
    std::vector<std::int64_t> layers;
    for (const auto& stage : plan::deal_stages(c_.model, p_.stages(), c_.partition, warnings))
      layers.push_back(stage.layers);
    const auto usual = known != kTorchSchedules.end() && known->several ? 2 : 1;
    if (layers == torchtitan_stages(p_.stages(), c_.model.layers) && p_.chunks == usual) return;
    // Module by module.
    auto parts = Json::array();
    std::int64_t layer = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      auto names = Json::array();
      if (i == 0) names.push_back("tok_embeddings");
      for (std::int64_t n = 0; n < layers[i]; ++n) names.push_back(fmt::format("layers.{}", layer++));
      if (i + 1 == layers.size()) names.push_back("norm"), names.push_back("output");
      parts.push_back(std::move(names));
    }
    put("module_fqns_per_model_part", parts);
  }

  void recomputation() {
    section("activation_checkpoint");
    const auto& t = c_.training;
    const bool operators = c_.framework.selective_recompute == models::SelectiveRecompute::operators;
    if (t.recompute == models::Recompute::selective && (!operators || !t.recompute_modules.empty()))
      lack("training.recompute: torchtitan's selective repeats all operators but attention and every second product");
    if (t.recompute_layers) lack("training.recompute.layers: all layers are recomputed");
    if (t.recompute == models::Recompute::none) return say("mode", "none");
    const bool some = t.recompute == models::Recompute::full && t.recompute_every > 1;
    say("mode", t.recompute == models::Recompute::selective || some ? "selective" : "full");
    if (t.recompute == models::Recompute::selective)
      put("selective_ac_option", "op");
    else if (some)
      put("selective_ac_option", std::to_string(t.recompute_every));
  }

  bool compiled() const { return c_.framework.compiled; }

  void compilation() {
    section("compile");
    const auto loss = c_.framework.loss;
    const bool whole = compiled() && loss != models::LossKernels::torch;
    const bool alone = !compiled() && loss == models::LossKernels::fused;
    say("enable", compiled() || alone);
    if (compiled() || alone)
      put("components", whole ? Json{"model", "loss"} : compiled() ? Json{"model"} : Json{"loss"});
    if (!compiled() && c_.training.kernels == models::Kernels::fused)
      lack("training.kernels fused: operations are kernels of their own where the model is not compiled");
    if (loss != models::LossKernels::torch && loss != models::LossKernels::compiled && !alone)
      lack("framework.loss: torchtitan's is torch's, compiled or not");
  }

  void quantisation() {
    section(mx() ? "quantize.linear.mx" : "quantize.linear.float8");
    const auto scaling = c_.framework.fp8_scaling;
    if (scaling == models::Fp8Scaling::rowwise) put("recipe_name", "rowwise");
    if (mx()) put("recipe_name", "mxfp8_cublas");
    if (scaling == models::Fp8Scaling::current || scaling == models::Fp8Scaling::blockwise)
      lack("framework.fp8_scaling: torchtitan has tensorwise, rowwise and mx");
    put("filter_fqns", Json{"output"});
    if (!mx()) put("enable_fsdp_float8_all_gather", c_.framework.fp8_gather);
  }

  void others() {
    if (c_.training.attention == models::AttentionKind::unfused)
      lack("training.attention unfused: torchtitan calls fused attention");
    if (!c_.framework.name.starts_with("titan"))
      lack(fmt::format("framework {}: how torchtitan behaves differs", c_.framework.name));
    lack_others(s_,
                {"version",
                 "name",
                 "cluster*",
                 "simulate*",
                 "plan*",
                 "model",
                 "model.use",
                 "model.sequence",
                 "model.name",
                 "model.summary",
                 "model.source",
                 "parallelism*",
                 "batch.global",
                 "batch.micro",
                 "batch.sequence",
                 "schedule",
                 "schedule.name",
                 "schedule.file",
                 "partition*",
                 "stages*",
                 "job.steps",
                 "framework",
                 "framework.use",
                 "framework.compiled",
                 "framework.loss",
                 "framework.fp8_scaling",
                 "framework.fp8_gather",
                 "framework.async_tensor",
                 "framework.foreach_step",
                 "training.precision",
                 "training.optimizer",
                 "training.optimizer_in_backward",
                 "training.recompute*",
                 "training.offload*",
                 "training.master_copy",
                 "training.moments",
                 "training.gradient_precision",
                 "training.fsdp.reshard_after_forward",
                 "training.context",
                 "training.context_balance",
                 "training.overlap.tensor",
                 "training.kernels",
                 "training.attention",
                 "training.learning_rate",
                 "training.weight_decay"},
                lacks_);
  }

  const scenario::Scenario& s_;
  const scenario::Concrete& c_;
  const plan::Parallelism& p_;
  Lacks& lacks_;
  std::string text_, arguments_, section_, module_;
};

}  // namespace

std::string torchtitan_text(const scenario::Scenario& scenario, Lacks& lacks) {
  return TorchtitanWriter(scenario, lacks).text();
}

}  // namespace rehearsal::interchange
