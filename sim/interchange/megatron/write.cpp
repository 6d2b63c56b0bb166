// The way back: what model.cpp, layout.cpp, training.cpp and framework.cpp read.
#include "interchange/megatron/write.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "interchange/megatron/layers.hpp"
#include "plan/mesh.hpp"
#include "plan/partition.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::interchange {
namespace {

// What a scenario says that a run's arguments do not: the machine, what it is asked for, and the release of the
// framework, whose own ways no argument sets.
bool beside_arguments(std::string_view key) {
  for (const std::string_view section : {"cluster.", "framework.", "simulate.", "job.", "model.vision"})
    if (key.starts_with(section)) return true;
  return key == "name" || key == "model.name" || key == "batch.sequence" || key == "parallelism.data";
}

// What framework.cpp takes the framework for.
constexpr std::string_view kReadAs = "megatron-lm-2025";

class MegatronWriter {
 public:
  MegatronWriter(const scenario::Scenario& s, Lacks& lacks) : s_(s), p_(s.parallelism), lacks_(lacks) {}

  std::string write() {
    model();
    layout();
    batch();
    training();
    framework();
    experts();
    // What a run needs besides.
    arg("--mock-data"), arg("--train-iters", 20), arg("--lr", "1e-4"), arg("--eval-iters", 0);
    arg("--use-mcore-models"), arg("--transformer-impl", "transformer_engine");
    name_lacks();
    return out_;
  }

 private:
  const scenario::Concrete& c() const { return *s_.concrete; }

  void arg(std::string_view name) { out_ += fmt::format("{}\n", name); }
  template <class T>
  void arg(std::string_view name, const T& value) {
    out_ += fmt::format("{} {}\n", name, value);
  }
  void arg_if(bool when, std::string_view name) {
    if (when) arg(name);
  }
  // These keys are said by arguments, or their value is what Megatron-LM does anyhow.
  void covers(std::initializer_list<std::string_view> keys) {
    for (const auto key : keys) covered_.emplace(key);
  }
  void lack(const std::string& what) { lacks_.push_back(what); }

  void model() {
    const auto& m = c().model;
    if (m.family == models::Family::mlp || m.family == models::Family::u_transformer)
      throw UserError(fmt::format("{}: Megatron-LM trains transformers, and has no layers of this kind", m.name));
    covers({"model.family", "model.layers", "model.hidden", "model.heads", "model.vocabulary", "model.sequence",
            "model.tie_embeddings", "model.ffn", "model.ffn_kind", "model.kv_heads", "model.head_dim"});
    arg("--hidden-size", m.hidden), arg("--num-attention-heads", m.heads);
    const auto length = s_.batch.sequence > 0 ? s_.batch.sequence : m.sequence;
    arg("--seq-length", length), arg("--max-position-embeddings", length);
    if (m.is_gpt()) {
      if (!m.learned_positions) arg("--position-embedding-type", "none");
    } else {
      arg("--normalization", "RMSNorm"), arg("--disable-bias-linear"), arg("--position-embedding-type", "rope");
    }
    arg_if(m.ffn_kind == models::FfnKind::swiglu, "--swiglu");
    arg_if(m.ffn_kind == models::FfnKind::squared_relu, "--squared-relu");
    arg_if(!m.tie_embeddings, "--untie-embeddings-and-output-weights");
    attention(m);
    if (!m.is_moe())
      arg("--ffn-hidden-size", m.ffn);
    else
      mixture(m);
    if (m.vision) lack("model.vision: the tower is code of a trainer of its own");
    if (m.mtp_layers > 0) arg("--mtp-num-layers", m.mtp_layers), covers({"model.mtp_layers"});
    layers(m);
    vocabulary(m);
  }

  void attention(const models::Transformer& m) {
    if (m.mla) {
      arg("--multi-latent-attention");
      if (m.mla->query_rank > 0) arg("--q-lora-rank", m.mla->query_rank);
      arg("--kv-lora-rank", m.mla->kv_rank), arg("--qk-pos-emb-head-dim", m.mla->rotary_dim);
      arg("--qk-head-dim", m.mla->head_dim), arg("--v-head-dim", m.mla->value_dim);
      covers({"model.mla", "model.mla.query_rank", "model.mla.kv_rank", "model.mla.rotary_dim", "model.mla.head_dim",
              "model.mla.value_dim"});
    } else {
      if (m.kv_heads != m.heads) arg("--group-query-attention"), arg("--num-query-groups", m.kv_heads);
      if (m.hidden % m.heads != 0 || m.head_dim != m.hidden / m.heads) arg("--kv-channels", m.head_dim);
    }
    const auto mixer = megatron_attention(m);
    arg_if(mixer.qk_norm, "--qk-layernorm");
    arg_if(mixer.gate, "--attention-output-gate");
    if (mixer.sinks) arg("--softmax-type", "learnable");
    if (mixer.sparse > 0) {
      arg("--experimental-attention-variant", "dsa"), arg("--dsa-indexer-topk", mixer.sparse);
      arg("--dsa-indexer-n-heads", mixer.index_heads), arg("--dsa-indexer-head-dim", mixer.index_dim);
    }
    covers({"model.mixer.qk_norm", "model.mixer.gate", "model.mixer.sinks", "model.mixer.sparse",
            "model.mixer.index_heads", "model.mixer.index_dim", "model.mixer.window"});
  }

  void mixture(const models::Transformer& m) {
    arg("--ffn-hidden-size", m.ffn), arg("--num-experts", m.experts), arg("--moe-router-topk", m.experts_per_token);
    arg("--moe-ffn-hidden-size", m.expert_ffn), arg("--moe-grouped-gemm");
    if (m.shared_ffn > 0) arg("--moe-shared-expert-intermediate-size", m.shared_ffn);
    if (m.expert_latent > 0) arg("--moe-latent-size", m.expert_latent);
    covers({"model.experts", "model.experts_per_token", "model.expert_ffn", "model.shared_ffn", "model.shared_experts",
            "model.expert_latent", "model.dense_layers"});
  }

  // Of a list: what frequencies and patterns can say of each layer.
  void layers(const models::Transformer& m) {
    const auto said = megatron_layers(m);
    for (const auto& [name, value] : said.arguments) arg(name, value);
    for (const auto& what : said.lacks) lack(what);
    pattern_ = said.pattern;
    covers({"model.listed_layers"});
  }

  // Megatron-LM pads what a tokenizer has; one without words has as many as it is told to, and one more.
  void vocabulary(const models::Transformer& m) {
    if (m.vocabulary < 2) return;
    const bool whole = m.vocabulary % p_.tensor == 0;
    arg("--tokenizer-type", "NullTokenizer"), arg("--vocab-size", m.vocabulary - 1);
    arg("--make-vocab-size-divisible-by", whole ? m.vocabulary / p_.tensor : 1);
    if (!whole)
      lack(fmt::format("model.vocabulary {}: Megatron-LM pads it to a multiple of tensor {}", m.vocabulary, p_.tensor));
  }

  void layout() {
    covers({"parallelism.tensor", "parallelism.pipeline", "parallelism.context", "parallelism.sequence",
            "parallelism.chunks", "parallelism.expert", "parallelism.expert_tensor", "parallelism.zero"});
    arg("--tensor-model-parallel-size", p_.tensor), arg("--pipeline-model-parallel-size", p_.pipeline);
    if (p_.context > 1) arg("--context-parallel-size", p_.context);
    arg_if(p_.sequence && p_.tensor > 1, "--sequence-parallel");
    if (c().model.is_moe()) {
      arg("--expert-model-parallel-size", p_.expert), arg("--expert-tensor-parallel-size", p_.expert_tensor);
    }
    constexpr plan::AxisOrder kPipelineInside{Axis::tensor, Axis::context, Axis::expert, Axis::pipeline, Axis::data};
    if (s_.placement == kPipelineInside) arg("--use-tp-pp-dp-mapping"), covers({"placement"});
    stages();
    zero();
  }

  void stages() {
    covers({"partition", "partition.kind", "partition.layers", "partition.layout", "schedule.group", "schedule.name",
            "schedule"});
    if (s_.schedule.name != "1f1b" && s_.schedule.name != "interleaved-1f1b")
      lack(fmt::format("schedule {}: Megatron-LM has 1f1b and interleaved-1f1b, and runs {} with these arguments",
                       s_.schedule.name, p_.chunks > 1 ? "interleaved-1f1b" : "1f1b"));
    if (p_.pipeline == 1) {
      if (!pattern_.empty()) arg("--hybrid-layer-pattern", pattern_);
      return;
    }
    if (p_.chunks > 1 && s_.schedule.group && std::int64_t(*s_.schedule.group) != p_.pipeline)
      arg("--microbatch-group-size-per-virtual-pipeline-stage", *s_.schedule.group);
    const auto& partition = c().partition;
    const auto number = [this] {
      if (!pattern_.empty()) arg("--hybrid-layer-pattern", pattern_);
      if (p_.chunks > 1) arg("--num-virtual-stages-per-pipeline-rank", p_.chunks);
    };
    if (!p_.layouts.empty() || partition.kind == plan::Partition::Kind::balanced) {
      lack(p_.layouts.empty() ? "partition balanced: give the layers of each stage"
                              : "stages: Megatron-LM lays all stages out alike");
      return number();
    }
    if (!partition.layout.empty() && pattern_.empty()) return arg("--pipeline-model-parallel-layout", partition.layout);
    std::vector<std::string> warnings;
    const auto all = plan::deal_stages(c().model, p_.stages(), partition, warnings);
    const bool even = std::all_of(all.begin(), all.end(),
                                  [&all](const plan::Stage& one) { return one.layers == all.front().layers; });
    if ((pattern_.empty() || p_.chunks == 1) && even &&
        (c().model.mtp_layers == 0 || partition.kind == plan::Partition::Kind::listed))
      return number();
    if (!pattern_.empty()) return arg("--hybrid-layer-pattern", cut(all));
    if (p_.chunks == 1 && partition.kind == plan::Partition::Kind::listed && ends(all)) return;
    std::string text;
    for (const auto& stage : all) {
      if (!text.empty()) text += '|';
      if (stage.embedding) text += 'E';
      text += std::string(std::size_t(stage.layers), 't') + std::string(std::size_t(stage.predictions), 'm');
      if (stage.head) text += 'L';
    }
    arg("--pipeline-model-parallel-layout", text);
  }

  // The pattern with | between stages.
  std::string cut(const std::vector<plan::Stage>& all) const {
    std::string text;
    for (const auto& stage : all)
      text += (stage.first > 0 ? "|" : "") + pattern_.substr(std::size_t(stage.first), std::size_t(stage.layers));
    return text;
  }

  // Stages that are alike but for the first and the last.
  bool ends(const std::vector<plan::Stage>& all) {
    for (std::size_t i = 2; i + 1 < all.size(); ++i)
      if (all[i].layers != all[1].layers) return false;
    if (all.size() < 3 || c().model.mtp_layers > 0) return false;
    const auto middle = all[1].layers;
    if (all.front().layers != middle) arg("--decoder-first-pipeline-num-layers", all.front().layers);
    if (all.back().layers != middle) arg("--decoder-last-pipeline-num-layers", all.back().layers);
    return true;
  }

  void zero() {
    covers({"parallelism.shard"});
    const bool muon = c().training.optimizer->name == "muon";
    if (p_.zero >= 2) {
      arg("--use-megatron-fsdp"), arg("--use-distributed-optimizer");
      arg("--data-parallel-sharding-strategy", p_.zero == 3 ? "optim_grads_params" : "optim_grads");
    } else if (p_.zero == 1 && !muon) {
      arg("--use-distributed-optimizer");
    }
    const auto copies = p_.shard > 0 ? p_.data / p_.shard : 1;
    if (copies > 1 && p_.zero == 1) arg("--num-distributed-optimizer-instances", copies);
    if (copies > 1 && p_.zero > 1)
      lack(fmt::format("parallelism.shard {}: with the optimizer's states alone", p_.shard));
  }

  void batch() {
    covers({"batch.global", "batch.micro", "batch.microbatches"});
    arg("--micro-batch-size", s_.batch.micro), arg("--global-batch-size", s_.batch.global);
  }

  void training() {
    const auto& t = c().training;
    precision(t);
    covers({"training.optimizer", "training.moments", "training.learning_rate", "training.weight_decay"});
    const auto& optimizer = t.optimizer->name;
    if (optimizer == "sgd")
      arg("--optimizer", "sgd");
    else if (optimizer == "muon")
      arg("--optimizer", p_.zero == 1 ? "dist_muon" : "muon");
    else if (optimizer != "adamw")
      lack(fmt::format("training.optimizer {}: Megatron-LM has adam, sgd and muon", optimizer));
    if (t.moments == models::Moments::bf16)
      arg("--use-precision-aware-optimizer"), arg("--exp-avg-dtype", "bf16"), arg("--exp-avg-sq-dtype", "bf16");
    else if (t.moments != models::Moments::fp32)
      lack("training.moments in 8 bits with a scale for each block");
    recompute(t);
    offload(t);
    if (p_.context > 1)
      arg("--cp-comm-type", t.context == models::ContextKind::ring         ? "p2p"
                            : t.context == models::ContextKind::all_gather ? "allgather"
                                                                           : "a2a");
    covers({"training.context", "training.attention"});
    if (t.allocator == models::Allocator::expandable)
      lack("training.allocator: a variable, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
          covers({"training.allocator"});
  }

  void precision(const models::Training& t) {
    covers({"training.precision", "training.gradient_precision", "training.loss_scaling"});
    const auto narrow = t.precision == Precision::fp8 || t.precision == Precision::fp4;
    arg_if(t.precision == Precision::bf16 || narrow, "--bf16");
    arg_if(t.precision == Precision::fp16, "--fp16");
    if (t.precision == Precision::fp16 && !t.scales_loss()) arg("--loss-scale", 4096);
    if (t.precision == Precision::fp4) arg("--fp4-format", "e2m1");
    if (t.precision == Precision::fp8) {
      static constexpr std::array<const char*, 5> kRecipes{"delayed", "tensorwise", "", "blockwise", "mxfp8"};
      const auto scaling = c().framework.fp8_scaling;
      arg("--fp8-format", "hybrid");
      if (scaling == models::Fp8Scaling::rowwise)
        lack("framework.fp8_scaling rowwise: Megatron-LM has no such recipe");
      else
        arg("--fp8-recipe", kRecipes[std::size_t(scaling)]);
      arg_if(c().framework.fp8_gather, "--fp8-param-gather");
    }
    const auto usual = t.precision == Precision::fp16 ? Precision::fp16 : Precision::fp32;
    if (t.gradient_precision == usual) return;
    if (usual == Precision::fp32 && t.gradient_precision == Precision::bf16 && t.precision != Precision::fp32)
      arg("--grad-reduce-in-bf16");
    else if (usual == Precision::fp16 && t.gradient_precision == Precision::fp32)
      arg("--accumulate-allreduce-grads-in-fp32");
    else
      lack("training.gradient_precision: beside this precision Megatron-LM has no such gradients");
  }

  void recompute(const models::Training& t) {
    covers({"training.recompute.mode", "training.recompute.modules", "training.recompute.layers",
            "training.partition_activations"});
    if (t.recompute == models::Recompute::full) {
      arg("--recompute-granularity", "full"), arg("--recompute-method", t.recompute_layers ? "block" : "uniform");
      arg("--recompute-num-layers", t.recompute_layers.value_or(1));
      arg_if(t.partition_activations == models::CutCheckpoints::device, "--distribute-saved-activations");
    } else if (t.recompute == models::Recompute::selective) {
      arg("--recompute-granularity", "selective");
      static constexpr std::array<const char*, 8> kModules{"core_attn", "layernorm", "mla_up_proj",    "moe_act",
                                                           "mlp",       "moe",       "shared_experts", ""};
      std::vector<std::string> modules;
      for (const auto module : t.recompute_modules)
        if (module == models::RecomputeModule::mlp_act)
          lack("training.recompute.modules mlp_act");
        else
          modules.emplace_back(kModules[std::size_t(module)]);
      if (!modules.empty()) arg("--recompute-modules", fmt::format("{}", fmt::join(modules, " ")));
      if (modules.empty() && c().framework.selective_recompute != models::SelectiveRecompute::attention)
        lack("framework.selective_recompute operators: Megatron-LM computes the core of attention again");
      if (t.recompute_layers) lack("training.recompute.layers with mode selective");
    }
    if (t.partition_activations == models::CutCheckpoints::host) lack("training.partition_activations on the host");
  }

  void offload(const models::Training& t) {
    const auto& o = t.offload;
    covers({"training.offload.optimizer", "training.offload.optimizer_fraction", "training.offload.activations.layers",
            "training.offload.activations.to", "training.offload.activations"});
    if (o.optimizer == Tier::host) {
      arg("--optimizer-cpu-offload");
      if (o.optimizer_fraction < 1) arg("--optimizer-offload-fraction", o.optimizer_fraction);
    } else if (o.optimizer != Tier::device) {
      lack("training.offload.optimizer on disks");
    }
    if (o.activations == Tier::host && o.activation_layers && !o.activation_share)
      arg("--cpu-offloading-num-layers", *o.activation_layers);
    else if (o.activations != Tier::device)
      lack("training.offload.activations: Megatron-LM sends all of some layers, --cpu-offloading-num-layers");
  }

  void framework() {
    const auto& f = c().framework;
    if (f.name.find("megatron") == std::string::npos && f.name != "mlperf-2025" && f.name != "unknown")
      lack(fmt::format("framework {}: other software, whose ways Megatron-LM does not have", f.name));
    if (!f.dropout) arg("--hidden-dropout", 0), arg("--attention-dropout", 0);
    arg_if(!f.fused_accumulation, "--no-gradient-accumulation-fusion");
    if (f.loss == models::LossKernels::fused || f.loss == models::LossKernels::linear_fused)
      arg("--cross-entropy-loss-fusion"),
          arg("--cross-entropy-fusion-impl", f.loss == models::LossKernels::fused ? "te" : "linear");
    arg_if(f.async_tensor && p_.sequence && p_.tensor > 1, "--tp-comm-overlap");
    const bool overlaps = f.gradient_overlap == models::GradientOverlap::always ||
                          (f.gradient_overlap == models::GradientOverlap::without_pipeline && p_.pipeline == 1);
    arg_if(overlaps, "--overlap-grad-reduce");
    if (f.gather_overlap && p_.zero > 0 && overlaps) arg("--overlap-param-gather");
    if (f.gather_overlap && p_.zero > 0 && !overlaps && gives("framework.gather_overlap"))
      lack("framework.gather_overlap: Megatron-LM has it with --overlap-grad-reduce alone");
    if (gives("framework.bucket_parameters"))
      arg("--ddp-bucket-size", std::max(f.bucket_parameters, f.bucket_parameters_per_replica * p_.data));
    arg_if(f.blocking_sends && p_.chunks > 1, "--no-overlap-p2p-communication");
    arg_if(!f.sharded_sends && p_.pipeline > 1 && p_.tensor > 1, "--no-scatter-gather-tensors-in-pipeline");
    if (c().training.attention == models::AttentionKind::unfused) {
      arg("--attention-backend", "unfused");
      arg_if(!f.fused_softmax, "--no-masked-softmax-fusion");
    } else if (f.attention_kernel == models::AttentionKernel::flash2) {
      arg("--attention-backend", "flash");
    }
    graphs(f);
    framework_lacks();
  }

  // What arguments do not say of it: the release, and ways that somebody set beside it.
  void framework_lacks() {
    const auto& name = c().framework.name;
    if (name.find("megatron") != std::string::npos && name != kReadAs)
      lack(fmt::format("framework {0}: no argument tells the release; `rehearse import --set framework.use={0}` does",
                       name));
    static constexpr std::array<std::string_view, 21> kSaid{
        "use",
        "dropout",
        "fused_accumulation",
        "async_tensor",
        "gather_overlap",
        "gradient_overlap",
        "blocking_sends",
        "sharded_sends",
        "fused_softmax",
        "cuda_graph",
        "dispatcher",
        "dispatch_sms",
        "expert_overlap",
        "shared_expert_overlap",
        "fused_router",
        "fp8_scaling",
        "fp8_gather",
        "selective_recompute",
        "bucket_parameters",
        "bucket_parameters_per_replica",
    };
    for (const auto& [key, where] : s_.given) {
      constexpr std::string_view kSection = "framework.";
      if (!key.starts_with(kSection)) continue;
      const auto way = std::string_view(key).substr(kSection.size());
      if (std::find(kSaid.begin(), kSaid.end(), way) != kSaid.end()) continue;
      if (way == "loss" && loss_is_said()) continue;
      if (way == "attention_kernel" && c().framework.attention_kernel != models::AttentionKernel::flash3) continue;
      lack(fmt::format("{} ({}): no argument sets it", key, to_text(where)));
    }
  }

  bool loss_is_said() const {
    const auto loss = c().framework.loss;
    return loss == models::LossKernels::in_place || loss == models::LossKernels::fused ||
           loss == models::LossKernels::linear_fused;
  }

  bool gives(std::string_view key) const {
    return std::any_of(s_.given.begin(), s_.given.end(), [key](const auto& given) { return given.key == key; });
  }

  void graphs(const models::Framework& f) {
    switch (f.cuda_graph) {
      case models::CudaGraph::none:
        return;
      case models::CudaGraph::full:
        return arg("--cuda-graph-impl", "local"), arg("--cuda-graph-modules", "full_iteration");
      default:
        break;
    }
    arg("--cuda-graph-impl", "transformer_engine");
    const bool attention = f.cuda_graph != models::CudaGraph::router,
               router = f.cuda_graph != models::CudaGraph::attention;
    arg("--cuda-graph-modules", attention && router ? "attn moe_router moe_preprocess"
                                : attention         ? "attn"
                                                    : "moe_router moe_preprocess");
  }

  void experts() {
    if (!c().model.is_moe()) return;
    const auto& f = c().framework;
    if (f.dispatcher == models::Dispatcher::nccl) {
      arg("--moe-token-dispatcher-type", "alltoall");
    } else {
      arg("--moe-token-dispatcher-type", "flex");
      arg("--moe-flex-dispatcher-backend", f.dispatcher == models::Dispatcher::deepep ? "deepep" : "hybridep");
      if (f.dispatch_sms > 0) arg("--moe-flex-dispatcher-num-sms", f.dispatch_sms);
    }
    arg_if(f.expert_overlap, "--overlap-moe-expert-parallel-comm");
    arg_if(f.shared_expert_overlap, "--moe-shared-expert-overlap");
    arg_if(f.fused_router, "--moe-router-fusion");
    covers({"experts.capacity", "experts.limit_nodes"});
    const auto& e = c().experts;
    if (e.capacity) arg("--moe-expert-capacity-factor", *e.capacity);
    if (!e.limit_nodes) return;
    constexpr std::int64_t kNode = 8;
    if (p_.expert % kNode == 0 && p_.expert / kNode > *e.limit_nodes)
      arg("--moe-router-num-groups", p_.expert / kNode), arg("--moe-router-group-topk", *e.limit_nodes);
    else
      lack(fmt::format("experts.limit_nodes {}: groups of experts that are not nodes of {} GPUs", *e.limit_nodes,
                       kNode));
  }

  // All else that a scenario says and that is not what it would be without being said.
  void name_lacks() {
    scenario::Scenario blank;
    blank.concrete.emplace();
    for (const auto& field : scenario::scenario_fields().fields) {
      if (!field.acts || beside_arguments(field.key) || covered_.contains(field.key)) continue;
      const auto value = field.get(&s_);
      if (std::holds_alternative<std::monostate>(value) || value == field.get(&blank)) continue;
      if (field.otherwise && value == field.otherwise(&s_)) continue;
      if (!field.otherwise && value == field.when_absent) continue;
      lack(fmt::format("{} {}", field.key, fields::written(value)));
    }
  }

  const scenario::Scenario& s_;
  const plan::Parallelism& p_;
  Lacks& lacks_;
  std::string out_, pattern_;
  std::set<std::string, std::less<>> covered_;
};

}  // namespace

std::string write_megatron(const scenario::Scenario& scenario, Lacks& lacks) {
  return MegatronWriter(scenario, lacks).write();
}

}  // namespace rehearsal::interchange
