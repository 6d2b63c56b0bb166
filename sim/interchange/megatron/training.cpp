// Arguments that say how a run trains: precision, optimizer, what is computed again and what is sent away.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "interchange/megatron/reading.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

class MegatronTraining {
 public:
  explicit MegatronTraining(MegatronReading& run) : run_(run), keys_(run.keys), draft_(run.draft) {}

  void read() {
    precision();
    optimizer();
    recompute();
    offload();
    attention();
    adapters();
  }

 private:
  void precision() {
    const auto fp8 = run_.word("fp8"), fp4 = run_.word("fp4");
    const auto bf16 = keys_.boolean({"bf16"}), fp16 = keys_.boolean({"fp16"});
    const auto on = [](const auto& said) { return said && boolean_of(said->value) != std::optional(false); };
    const bool half = fp16 && fp16->value;
    if (half && bf16 && bf16->value)
      wrong(*fp16->at, fmt::format("{} and {} are both on; Megatron-LM takes one of the two", run_.spelled("bf16"),
                                   run_.spelled("fp16")));
    if (on(fp4)) {
      draft_.say("training.precision", "fp4", *fp4->at, fp4->word);
      draft_.assume("cluster.use", "b200-sxm", "no file says the machine, and NVFP4 needs Blackwell");
    } else if (on(fp8)) {
      draft_.say("training.precision", "fp8", *fp8->at, fp8->word);
      scaling();
    } else if (half) {
      draft_.say("training.precision", "fp16", *fp16->at, fp16->word);
    } else if (bf16 && bf16->value) {
      draft_.say("training.precision", "bf16", *bf16->at, bf16->word);
    } else if (run_.layers > 0 && !run_.arguments.partial) {
      draft_.derive("training.precision", "fp32",
                    fmt::format("Megatron: neither {} nor {}", run_.spelled("bf16"), run_.spelled("fp16")));
    }
    if (half && number_of(run_.word_or("loss_scale", "0")).value_or(0) == 0)
      draft_.derive("training.loss_scaling", "dynamic", "Megatron's scale of the loss in fp16");
    gradients(half);
    run_.no_word("first_last_layers_bf16", "all layers are taken to have the same precision");
    for (const char* name : {"num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"})
      if (run_.is("first_last_layers_bf16"))
        run_.no_word(name, "likewise");
      else
        keys_.ignore({name});
    run_.no_word("fp8_dot_product_attention", "attention is priced in 16 bits");
    run_.no_word("fp8_multi_head_attention", "attention is priced in 16 bits");
    run_.no_word("fp32_residual_connection", "what goes from layer to layer is taken to have 16 bits");
  }

  // megatron/core/enums.py, Fp8Recipe; `tensorwise` is current scaling, `delayed` knows its maximum.
  void scaling() {
    const auto recipe = run_.word("fp8_recipe");
    const auto name = recipe ? recipe->value : "delayed";
    const char* ours = name == "tensorwise"  ? "current"
                       : name == "blockwise" ? "blockwise"
                       : name == "mxfp8"     ? "mx"
                                             : "tensorwise";
    if (name != "delayed" && std::string_view(ours) == "tensorwise")
      draft_.no_word(recipe->at->where(), recipe->word + " " + name, "taken as one scale a tensor");
    if (name != "delayed") draft_.say("framework.fp8_scaling", ours, *recipe->at, recipe->word + " " + name);
    if (name == "mxfp8")
      draft_.assume("cluster.use", "b200-sxm", "no file says the machine, and MXFP8 needs Blackwell");
    if (const auto narrow = keys_.boolean({"fp8_param_gather"}); narrow && narrow->value)
      draft_.say("framework.fp8_gather", true, *narrow->at, narrow->word);
  }

  // Gradients add up in fp32 with --bf16 and in what is computed with else (validate_args), unless something says so.
  void gradients(bool half) {
    const auto narrow = keys_.boolean({"grad_reduce_in_bf16"});
    const auto wide = keys_.boolean({"accumulate_allreduce_grads_in_fp32"});
    const auto type = run_.word("main_grads_dtype");
    const auto bits16 = [](const std::string& word) { return word == "bf16" || word == "bfloat16"; };
    if (narrow && narrow->value)
      draft_.say("training.gradient_precision", "bf16", *narrow->at, narrow->word);
    else if (run_.is("use_precision_aware_optimizer") && type && bits16(type->value))
      draft_.say("training.gradient_precision", "bf16", *type->at, type->word);
    else if (run_.arguments.configuration && wide && !wide->value && !half)
      draft_.say("training.gradient_precision", "bf16", *wide->at, wide->word);
    else if (half && wide && wide->value)
      draft_.say("training.gradient_precision", "fp32", *wide->at, wide->word);
  }

  void optimizer() {
    const auto kind = run_.word("optimizer");
    const auto name = kind ? kind->value : "adam";
    const bool muon = name == "muon" || name == "dist_muon";
    if (kind && name != "adam" && name != "sgd" && !muon)
      draft_.no_word(kind->at->where(), kind->word + " " + name, "taken as adamw");
    if (name == "sgd" || muon)
      draft_.say("training.optimizer", name == "sgd" ? "sgd" : "muon", *kind->at, kind->word + " " + name);
    const bool aware = run_.is("use_precision_aware_optimizer");
    const auto moments = run_.word("exp_avg_dtype"), second = run_.word("exp_avg_sq_dtype");
    if (aware && moments) {
      if (moments->value == "bf16" || moments->value == "bfloat16")
        draft_.say("training.moments", "bf16", *moments->at, moments->word);
      else if (moments->value != "fp32" && moments->value != "float32")
        draft_.no_word(moments->at->where(), moments->word + " " + moments->value, "taken as fp32");
      if (second && second->value != moments->value)
        draft_.no_word(second->at->where(), second->word + " " + second->value, "both moments are taken alike");
    }
    if (aware)
      run_.no_word("main_params_dtype", "the copy of the weights is taken to have fp32",
                   {"fp32", "torch.float32", "{_call_: false, _target_: torch.float32}"});
    else
      keys_.ignore({"main_params_dtype"});
  }

  void recompute() {
    const auto granularity = run_.word("recompute_granularity");
    const auto activations = keys_.boolean({"recompute_activations"});
    const auto method = run_.word("recompute_method");
    const auto number = keys_.integer({"recompute_num_layers"});
    const auto modules = run_.words("recompute_modules");
    const auto experts = keys_.boolean({"moe_layer_recompute"});
    const auto cut = keys_.boolean({"distribute_saved_activations"});
    // Of Megatron-LM before 3.0, and of Megatron-DeepSpeed: whole layers.
    const auto whole = keys_.boolean({"checkpoint_activations"});
    const auto every = keys_.integer({"checkpoint_num_layers"});
    if (whole && whole->value && !granularity) {
      draft_.say("training.recompute", "full", *whole->at, whole->word);
      if (every && every->value > 1)
        draft_.no_word(every->at->where(), fmt::format("{} {}", every->word, every->value),
                       "each layer's input is kept, and not only that of groups of layers");
      return;
    }
    // --recompute-activations sets the granularity, whatever else says it (validate_args).
    if (granularity && granularity->value == "full" && !(activations && activations->value)) {
      const bool block = method && method->value == "block";
      draft_.say(block && number ? "training.recompute.mode" : "training.recompute", "full", *granularity->at,
                 granularity->word);
      if (block && number)
        draft_.say("training.recompute.layers", number->value, *number->at, number->word);
      else if (number && number->value > 1)
        draft_.no_word(number->at->where(), fmt::format("{} {}", number->word, number->value),
                       "each layer's input is kept, and not only that of groups of layers");
      if (cut && cut->value) draft_.say("training.partition_activations", "device", *cut->at, cut->word);
      return;
    }
    const bool selective = granularity && granularity->value == "selective";
    if (!selective && !(activations && activations->value)) {
      if (experts && experts->value)
        draft_.say("training.recompute.modules", Json::Array{Json("moe")}, *experts->at, experts->word);
      return;
    }
    const auto& at = selective ? *granularity->at : *activations->at;
    std::vector<std::string> known;
    for (const auto& module : modules ? modules->value : std::vector<std::string>{}) {
      static constexpr std::array<std::string_view, 7> kModules{"core_attn", "layernorm", "mla_up_proj",   "moe_act",
                                                                "mlp",       "moe",       "shared_experts"};
      const bool of_experts = module.starts_with("moe") || module == "shared_experts";
      if (std::find(kModules.begin(), kModules.end(), module) == kModules.end())
        draft_.no_word(modules->at->where(), modules->word + " " + module, "not computed again");
      else if (!of_experts || run_.experts > 0)
        known.push_back(module);
    }
    if (known.empty() || (known.size() == 1 && known.front() == "core_attn"))
      draft_.say("training.recompute", "selective", at, selective ? granularity->word : activations->word);
    else
      draft_.say("training.recompute.modules", Json(known), *modules->at, modules->word);
  }

  void offload() {
    if (const auto states = keys_.boolean({"optimizer_cpu_offload"}); states && states->value) {
      draft_.say("training.offload.optimizer", "host", *states->at, states->word);
      if (const auto part = keys_.number({"optimizer_offload_fraction"}); part && part->value < 1 && part->value > 0)
        draft_.say("training.offload.optimizer_fraction", part->value, *part->at, part->word);
    } else {
      keys_.ignore({"optimizer_offload_fraction"});
    }
    if (const auto layers = keys_.integer({"cpu_offloading_num_layers"}); layers && layers->value > 0)
      draft_.say("training.offload.activations.layers", layers->value, *layers->at, layers->word);
    keys_.ignore({"cpu_offloading", "cpu_offloading_activations"});
    run_.no_word("cpu_offloading_weights", "only activations leave");
    if (run_.is("fine_grained_activation_offloading"))
      run_.no_word("offload_modules", "what part of a layer leaves is said by training.offload.activations.share");
    else
      keys_.ignore({"offload_modules"});
    run_.no_word("fine_grained_activation_offloading", "activations are taken to stay");
  }

  // auto: Transformer Engine chooses, as the profile of the framework says.
  void attention() {
    const auto backend = run_.word("attention_backend");
    const auto name = backend ? backend->value : "auto";
    const bool local = run_.word_or("transformer_impl", "transformer_engine") == "local" && !run_.is("use_flash_attn");
    run_.is("use_flash_attn");
    if (name == "unfused" || name == "local" || (name == "auto" && local)) {
      if (name == "auto")
        draft_.derive(
            "training.attention", "unfused",
            fmt::format("{} local without {}", run_.spelled("transformer_impl"), run_.spelled("use_flash_attn")));
      else
        draft_.say("training.attention", "unfused", *backend->at, backend->word + " " + name);
      if (run_.is("masked_softmax_fusion", true))
        draft_.derive("framework.fused_softmax", true, "Megatron's scaled masked softmax");
    } else if (name == "flash") {
      draft_.say("framework.attention_kernel", "flash-2", *backend->at, backend->word + " " + name);
    } else if (name == "fused") {
      draft_.say("framework.attention_kernel", "cudnn", *backend->at, backend->word + " " + name);
    }
    keys_.ignore({"masked_softmax_fusion"});
  }

  // Of Megatron-Bridge and NeMo: the section `peft`.
  void adapters() {
    const auto rank = keys_.integer({"lora_dim"});
    if (!rank) return;
    draft_.say("training.lora.rank", rank->value, *rank->at, rank->word);
    const auto modules = run_.words("lora_target_modules");
    if (!modules) return;
    std::vector<std::string> known;
    for (const auto& name : modules->value) {
      static constexpr std::array<std::string_view, 4> kModules{"linear_qkv", "linear_proj", "linear_fc1",
                                                                "linear_fc2"};
      if (std::find(kModules.begin(), kModules.end(), name) == kModules.end())
        draft_.no_word(modules->at->where(), modules->word + " " + name, "without an adapter");
      else
        known.push_back(name);
    }
    if (!known.empty() && known.size() < 4)
      draft_.say("training.lora.modules", Json(known), *modules->at, modules->word);
  }

  MegatronReading& run_;
  Keys& keys_;
  ScenarioDraft& draft_;
};

}  // namespace

void read_megatron_training(MegatronReading& run) { MegatronTraining(run).read(); }

}  // namespace rehearsal::interchange
