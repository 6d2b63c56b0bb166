// Arguments and variables that say how the framework itself works, against the profile of plain Megatron-LM.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/megatron/reading.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

class MegatronFramework {
 public:
  explicit MegatronFramework(MegatronReading& run) : run_(run), keys_(run.keys), draft_(run.draft) {}

  void read() {
    if (run_.arguments.partial)
      draft_.assume("framework.use", "megatron-2025", "what recipes of NeMo and Megatron-Bridge set; no file has it");
    else
      draft_.assume("framework.use", "megatron-lm-2025", "no argument tells the release");
    kernels();
    overlap();
    experts();
    graphs();
    environment();
  }

 private:
  // The knob, where the argument is there and differs from what the profile has.
  void knob(const std::string& key, Json value, const char* name, bool when) {
    const auto said = keys_.boolean({name});
    if (said && said->value == when) draft_.say("framework." + key, std::move(value), *said->at, said->word);
  }

  void kernels() {
    const auto hidden = keys_.number({"hidden_dropout"}), attention = keys_.number({"attention_dropout"});
    if (hidden && attention && hidden->value == 0 && attention->value == 0)
      draft_.say("framework.dropout", false, *hidden->at, hidden->word + " 0");
    else if (run_.layers > 0 && (!run_.arguments.partial || hidden || attention))
      draft_.derive("framework.dropout", true,
                    hidden || attention ? "a dropout above 0" : "Megatron's --hidden-dropout 0.1");
    knob("fused_accumulation", false, "gradient_accumulation_fusion", false);
    if (run_.is("cross_entropy_loss_fusion")) {
      const auto kind = run_.word("cross_entropy_fusion_impl");
      const bool linear = kind && kind->value == "linear";
      draft_.say("framework.loss", linear ? "linear-fused" : "fused", *keys_.boolean({"cross_entropy_loss_fusion"})->at,
                 run_.spelled("cross_entropy_loss_fusion"));
    }
    run_.word("cross_entropy_fusion_impl");
    for (const auto& [name, what] :
         {std::pair("bias_gelu_fusion", "bias and GELU"), std::pair("bias_swiglu_fusion", "SwiGLU"),
          std::pair("bias_activation_fusion", "bias and activation"),
          std::pair("bias_dropout_fusion", "bias, dropout and residual"), std::pair("apply_rope_fusion", "rotations")})
      if (const auto fused = keys_.boolean({name}); fused && !fused->value && applies(name))
        draft_.no_word(fused->at->where(), fused->word, fmt::format("{} priced as one kernel", what));
    knob("sharded_sends", false, "scatter_gather_tensors_in_pipeline", false);
    run_.no_word("deterministic_mode", "kernels that add up in a fixed order are slower, and not priced");
    run_.no_word("calculate_per_token_loss", "the loss is priced as the mean of micro-batches");
  }

  // Of the activation that the model has.
  bool applies(std::string_view name) {
    const bool gated = run_.is("swiglu") || run_.is("gated_linear_unit");
    if (name == "bias_swiglu_fusion") return gated;
    if (name == "bias_gelu_fusion") return !gated && !run_.is("squared_relu");
    if (name == "apply_rope_fusion") {
      const auto positions = run_.word("position_embedding_type");
      return run_.is("use_rotary_position_embeddings") || (positions && positions->value == "rope");
    }
    return true;
  }

  void overlap() {
    knob("gradient_overlap", "always", "overlap_grad_reduce", true);
    knob("gather_overlap", true, "overlap_param_gather", true);
    if (run_.is("tp_comm_overlap")) {
      // arguments.py, validate_args; a single rank has nothing to overlap.
      if (!run_.is("sequence_parallel") && !run_.arguments.partial && run_.integer("tensor_model_parallel_size", 1) > 1)
        run_.contradict("tp_comm_overlap",
                        fmt::format("Megatron-LM refuses '{}' without '{}': give both, or neither",
                                    run_.spelled("tp_comm_overlap"), run_.spelled("sequence_parallel")));
      if (run_.is("sequence_parallel")) knob("async_tensor", true, "tp_comm_overlap", true);
    }
    // Sends of interleaved stages; others are not hidden, whatever it says (schedules.py).
    if (draft_.integer("parallelism.chunks", 1) > 1)
      knob("blocking_sends", true, "overlap_p2p_comm", false);
    else
      keys_.ignore({"overlap_p2p_comm"});
    if (const auto bucket = keys_.integer({"ddp_bucket_size"}); bucket && bucket->value > 0) {
      draft_.say("framework.bucket_parameters", bucket->value, *bucket->at, bucket->word);
      draft_.derive("framework.bucket_parameters_per_replica", 0, bucket->word + " is said");
    }
    run_.no_word("ddp_num_buckets", "buckets are as large as the framework makes them");
    run_.no_word("overlap_param_gather_with_optimizer_step", "gathers begin after the step");
    run_.no_word("overlap_p2p_comm_warmup_flush", "first and last sends are not hidden");
    run_.no_word("delay_wgrad_compute", "gradients of weights come with those of inputs");
    run_.no_word("defer_embedding_wgrad_compute", "the head's gradient of weights is not deferred");
    run_.no_word("tp_comm_overlap_cfg", "the usual pieces are taken");
  }

  void experts() {
    for (const char* name :
         {"moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_enable_deepep", "use_turbo_deepep"})
      run_.keys.node({name});
    run_.word("moe_flex_dispatcher_num_sms");
    if (run_.experts == 0) return;
    dispatcher();
    knob("expert_overlap", true, "overlap_moe_expert_parallel_comm", true);
    knob("shared_expert_overlap", true, "moe_shared_expert_overlap", true);
    knob("fused_router", true, "moe_router_fusion", true);
    if (const auto capacity = keys_.number({"moe_expert_capacity_factor"}); capacity && capacity->value > 0)
      draft_.say("experts.capacity", capacity->value, *capacity->at, capacity->word);
    run_.no_word("moe_pad_expert_input_to_capacity", "experts get the tokens that are kept, without padding");
    if (!run_.is("moe_grouped_gemm"))
      draft_.no_word(run_.place("num_experts"), fmt::format("no {}", run_.spelled("moe_grouped_gemm")),
                     "experts one after the other are priced as grouped products");
    run_.no_word("moe_router_load_balancing_type", "tokens are taken to be routed evenly; experts.skew says how else",
                 {"aux_loss", "seq_aux_loss", "global_aux_loss", "none", "[aux_loss]", "[seq_aux_loss]",
                  "[global_aux_loss]", "['aux_loss']"});
    run_.no_word("moe_shared_expert_gate", "a product with one column, which is left out");
    run_.no_word("activation_func_clamp_value", "clamps of gated activations are not priced");
    run_.no_word("moe_router_padding_for_quantization", "rows of experts are not padded");
  }

  void dispatcher() {
    const auto kind = run_.word("moe_token_dispatcher_type"), backend = run_.word("moe_flex_dispatcher_backend");
    const auto name = kind ? kind->value : "allgather";
    const auto deepep = keys_.boolean({"moe_enable_deepep", "use_turbo_deepep"});
    if (name == "flex" || (deepep && deepep->value)) {
      const auto by = backend && name == "flex" ? backend->value : "deepep";
      const auto& at = backend ? *backend->at : kind ? *kind->at : *deepep->at;
      if (by == "deepep" || by == "hybridep")
        draft_.say("framework.dispatcher", by, at,
                   fmt::format("{} {}", run_.spelled("moe_flex_dispatcher_backend"), by));
      else
        draft_.no_word(at.where(), run_.spelled("moe_flex_dispatcher_backend") + " " + by, "priced as NCCL's");
      if (const auto held = keys_.integer({"moe_flex_dispatcher_num_sms"}); held && held->value > 0)
        draft_.say("framework.dispatch_sms", held->value, *held->at, held->word);
    } else if (name == "allgather" && run_.integer("expert_model_parallel_size", 1) > 1) {
      draft_.no_word(
          run_.place("moe_token_dispatcher_type"),
          fmt::format("{} allgather{}", run_.spelled("moe_token_dispatcher_type"), kind ? "" : ", the default"),
          "tokens are priced as sent by an all-to-all");
    }
  }

  // --cuda-graph-impl with the modules of a layer that are captured; before 2025-09 --enable-cuda-graph and
  // --external-cuda-graph with a scope.
  void graphs() {
    const auto kind = run_.word("cuda_graph_impl");
    const auto modules = run_.words("cuda_graph_modules");
    const auto enabled = keys_.boolean({"enable_cuda_graph"}), outside = keys_.boolean({"external_cuda_graph"});
    const bool on = (kind && kind->value != "none") || (enabled && enabled->value) || (outside && outside->value);
    if (!on || run_.layers == 0) return;
    const Node& at = kind && kind->value != "none" ? *kind->at
                     : enabled && enabled->value   ? *enabled->at
                                                   : *outside->at;
    const auto word = kind && kind->value != "none" ? kind->word + " " + kind->value
                      : enabled && enabled->value   ? enabled->word
                                                    : outside->word;
    bool attention = false, router = false, iteration = kind && kind->value == "full_iteration", layers = true;
    for (const auto& module : modules ? modules->value : std::vector<std::string>{}) {
      attention |= module == "attn", router |= module == "moe_router" || module == "moe_preprocess";
      iteration |= module == "full_iteration";
      layers &= module == "full";
    }
    if (iteration)
      draft_.say("framework.cuda_graph", "full", at, word);
    else if (layers || run_.experts == 0)
      draft_.no_word(at.where(), word,
                     "graphs of single layers, which leave some launches; framework.cuda_graph: full "
                     "is one of the whole step");
    else if (attention || router)
      draft_.say("framework.cuda_graph",
                 attention && router ? "attention+router"
                 : attention         ? "attention"
                                     : "router",
                 at, word);
    for (const auto& module : modules ? modules->value : std::vector<std::string>{})
      if (module != "attn" && module != "moe_router" && module != "moe_preprocess" && module != "full" &&
          module != "full_iteration" && run_.experts > 0)
        draft_.no_word(modules->at->where(), modules->word + " " + module, "launched kernel by kernel");
  }

  void environment() {
    Keys around(draft_, run_.arguments.environment());
    if (const auto allocator = around.text({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"});
        allocator && allocator->value.find("expandable_segments:True") != std::string::npos)
      draft_.say("training.allocator", "expandable", *allocator->at, allocator->word + "=" + allocator->value);
    if (const auto blocking = around.boolean({"CUDA_LAUNCH_BLOCKING"}); blocking && blocking->value)
      draft_.say("framework.launch_blocking", true, *blocking->at, blocking->word + "=1");
    for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_MAX_CTAS",
                             "NCCL_MIN_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS"})
      if (const auto value = around.text({name}))
        draft_.no_word(value->at->where(), fmt::format("{}={}", name, value->value),
                       "algorithms and channels are taken as NCCL chooses them");
    if (const auto switches = around.text({"NCCL_NVLS_ENABLE"}); switches && switches->value == "0")
      draft_.no_word(switches->at->where(), "NCCL_NVLS_ENABLE=0",
                     "reductions in switches are taken where the machine has them");
  }

  MegatronReading& run_;
  Keys& keys_;
  ScenarioDraft& draft_;
};

}  // namespace

void read_megatron_framework(MegatronReading& run) { MegatronFramework(run).read(); }

}  // namespace rehearsal::interchange
