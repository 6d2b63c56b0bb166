#include "plan/refusals.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/range.hpp"
#include "plan/rules.hpp"

namespace rehearsal::plan {
namespace {

void check_rules(const Job& job) {
  const auto& p = job.parallelism;
  for (const auto& broken :
       {broken_by_degrees(job.model, job.training, job.experts, p),
        broken_by_sequence(job.model, job.training, job.experts, p, job.batch, job.pieces),
        broken_by_offload(job.model, job.training, job.framework, p, job.cluster.host, job.copies)})
    if (!broken.empty()) throw UserError(broken.front().rule);
}

bool has_states(const models::Transformer& model) {
  const auto rows = models::layer_table(model).rows;
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.spec.mixer.recurrent(); });
}

// A framework that hands the states of recurrent layers from piece to piece is not known.
void check_states(const Job& job) {
  if (job.pieces > 1 && has_states(job.model) && !job.framework.native_kernels)
    throw UserError(
        "the schedule splits sequences into pieces, and no known framework passes the states of recurrent layers from "
        "piece to piece; choose another one, or set 'framework: native'");
}

// Features that scenarios can specify, count and check, but that have no price yet: when one is priced, its line goes.
void check_prices(const Job& job) {
  const auto& m = job.model;
  const auto& t = job.training;
  const auto& s = job.framework;
  const std::pair<const char*, bool> asked[] = {
      {"framework.expert_overlap beside a ring of context",
       s.expert_overlap && job.parallelism.context > 1 && t.context == models::ContextKind::ring},
      {"latent attention by this program's own kernels", m.mla && s.native_kernels}};
  std::vector<std::string> unpriced;
  for (const auto& [what, is] : asked)
    if (is) unpriced.emplace_back(what);
  if (unpriced.empty()) return;
  const bool several = unpriced.size() > 1;
  throw UserError(fmt::format("{} {} not priced yet: the scenario is valid, but this program cannot predict its time",
                              fmt::join(unpriced, ", "), several ? "are" : "is"));
}

// Bytes are counted in 63 bits: the widest tensor of a layer times the layers that a stage may hold must fit.
void check_sizes(const Job& job) {
  const auto& m = job.model;
  const bool scores = job.training.attention == models::AttentionKind::unfused;
  const double columns = std::max({double(m.hidden) * 4, double(m.heads) * double(m.head_dim) * 3, double(m.ffn) * 2,
                                   double(m.vocabulary), scores ? double(m.heads) * double(job.batch.sequence) : 0});
  const double rows = double(job.batch.micro) * double(job.batch.sequence);
  const double layers = double(m.layers) / double(job.parallelism.stages()) + 2;
  if (!(8 * rows * columns / double(job.parallelism.tensor) * layers * double(job.microbatches) < 0x1p62))
    refuse_size();
}

void check_adapters(const Job& job) {
  const auto& t = job.training;
  if (!t.frozen()) {
    if (!t.adapted_layers.empty()) throw UserError("training.lora.modules have no adapters; set training.lora.rank");
    if (t.adapts_experts) throw UserError("training.lora.experts have no adapters; set training.lora.rank");
    if (t.learns_ends)
      throw UserError("training.lora.ends: every parameter is trained; set training.lora.rank, or leave it out");
    if (t.frozen_precision != models::FrozenPrecision::training)
      throw UserError("training.frozen_precision: every parameter is trained; set training.lora.rank, or leave it out");
    return;
  }
  const auto refuse = [](bool wrong, const char* what) {
    if (wrong) throw UserError(fmt::format("training.lora: {}; leave it out", what));
  };
  refuse(job.framework.native_kernels, "this program's own kernels train every parameter");
  const bool latent = job.model.mla || std::any_of(job.model.listed.begin(), job.model.listed.end(),
                                                   [](const auto& row) { return row.spec.mixer.mla.has_value(); });
  refuse(latent || job.model.skips() > 0, "adapters are not supported with latent attention or skips");
  refuse(t.learns_ends && (job.model.tie_embeddings || job.model.mtp_layers > 0 || job.copies > 1),
         "'ends' trains copies, which are not supported with a tied table, multi-token prediction or bidirectional "
         "schedules");
  const auto fc = [&](models::AdaptedLayer layer) { return t.adapts(layer); };
  if (t.adapts_experts && !job.model.is_moe())
    throw UserError("training.lora.experts: the model has none; leave it out");
  if (t.adapts_experts && !fc(models::AdaptedLayer::linear_fc1) && !fc(models::AdaptedLayer::linear_fc2))
    throw UserError(
        "training.lora.experts: their layers are linear_fc1 and linear_fc2; add one to training.lora.modules");
  refuse(t.updates_at_once(), "adapters are not supported with optimizers that step inside the backward");
  refuse(job.data_parallel.served(), "servers would hold frozen parameters");
  refuse(t.offload.states() || t.offload.tiles > 1, "frozen parameters have no states that could leave the GPU");
}

std::string refusal(const Job& job) {
  const auto& p = job.parallelism;
  const auto refuses = job.training.optimizer->refuses;
  if (!refuses) return "";
  return refuses({job.training, job.framework.native_kernels, job.model.is_moe(), std::max(p.tensor, p.expert_tensor)});
}

// An optimizer that steps on whole matrices does so where these are, and all at once.
void check_whole_matrices(const Job& job) {
  const auto& optimizer = *job.training.optimizer;
  const auto refuse = [&](bool wrong, const char* what) {
    if (wrong) throw UserError(fmt::format("optimizer {} steps on whole matrices: {}", optimizer.name, what));
  };
  const bool matrices = optimizer.on_matrices != nullptr;
  refuse(matrices && job.training.offload.states(), "its states stay on the GPU; leave training.offload out");
  refuse(matrices && job.data_parallel.served(),
         "parameter servers have parts of them; set data_parallel to all-reduce");
  const bool tower = job.model.vision && job.model.vision->frozen;
  refuse(matrices && (job.training.frozen() || tower),
         "those that are frozen are not told from those that learn; set training.optimizer to adamw");
  refuse(job.framework.native_kernels && !optimizer.kernels,
         "this program has no kernels for that; choose a 'framework'");
  refuse(job.framework.native_kernels && matrices && job.parallelism.tensor > 1,
         "each tensor rank has a slice of them; set parallelism.tensor to 1, or training.optimizer to adamw");
}

// Requirements of an optimizer that steps inside the backward.
void check_updates_at_once(const Job& job) {
  const auto& p = job.parallelism;
  using models::GradientClipping;
  if (!job.training.updates_at_once()) {
    if (job.training.clipping != GradientClipping::none)
      throw UserError(
          "gradient_clipping is for optimizers that step inside the backward; for others it is part of "
          "framework.optimizer_bytes: leave it out, or set training.optimizer to lomo");
    if (const auto why = refusal(job); !why.empty())
      throw UserError(fmt::format("optimizer {}: {}", job.training.optimizer->name, why));
    return;
  }
  const auto& optimizer = *job.training.optimizer;
  const bool on_request = job.training.optimizer_in_backward;
  const auto refuse = [&](const std::string& what) {
    throw UserError(
        fmt::format("optimizer {} updates each parameter inside the backward, from the gradient of one "
                    "micro-batch: {}",
                    optimizer.name, what));
  };
  if (on_request && !optimizer.may_in_backward)
    throw UserError(fmt::format("training.optimizer_in_backward does not apply to {}; leave it out", optimizer.name));
  if (on_request && (p.data * p.context > 1 || job.framework.native_kernels))
    refuse(job.framework.native_kernels
               ? "this program's own kernels step once, after the backward; leave training.optimizer_in_backward out"
               : "it is supported with one replica only; set parallelism.data and context to 1, or leave "
                 "training.optimizer_in_backward out");
  if (on_request && job.training.clipping != GradientClipping::none)
    refuse("the norm of all gradients is not known by then; leave gradient_clipping out");
  if (job.microbatches > 1)
    refuse(fmt::format("it cannot accumulate {} micro-batches; set batch.micro so that there is one per pipeline",
                       job.microbatches));
  if (on_request) return;
  if (job.framework.native_kernels && p.zero > 0)
    refuse("there are no states for zero to shard; set parallelism.zero to 0");
  if (!job.framework.native_kernels && p.zero != 3 && p.data * p.context > 1)
    refuse("frameworks support it over replicas with zero 3 only; set parallelism.zero to 3");
  if (!job.framework.native_kernels && p.zero == 3 && p.data * p.context == 1)
    refuse("there is nothing that zero 3 could shard over one GPU; set parallelism.zero to 0");
  if (const auto why = refusal(job); !why.empty()) refuse(why);
  if (job.training.norms_first() && p.pipeline > 1)
    refuse("no framework runs the backward of a pipeline twice for a norm; set parallelism.pipeline to 1");
  if (job.framework.native_kernels && job.training.norms_first() && (p.tensor > 1 || job.model.is_moe()))
    refuse(
        "this program's own kernels compute the norm of whole parameters only; set parallelism.tensor to 1 and "
        "choose a model without experts");
  if (job.training.scales_loss() && !job.training.norms_first())
    refuse(
        "an overflow must be detected before any update, which the backward for norms does; set "
        "gradient_clipping to norm");
  if (job.pieces > 1) refuse("a piece of a sequence gives a part of it only; set schedule to 1f1b");
  if (job.model.tie_embeddings && job.model.family != models::Family::mlp)
    refuse("a tied embedding gets gradients at both ends of the network; set model.tie_embeddings to false");
}

// Both ends cut over the pipeline ranks.
void check_vocabulary(const Job& job) {
  if (!job.vocabulary) return;
  const auto& p = job.parallelism;
  const auto refuse = [](bool wrong, const char* what) {
    if (wrong) throw UserError(fmt::format("a vocabulary cut over the pipeline ranks: {}; set schedule to 1f1b", what));
  };
  refuse(p.pipeline == 1, "there is one rank");
  refuse(job.framework.native_kernels, "this program's own kernels compute losses in one piece");
  refuse(job.model.family == models::Family::mlp || job.model.skips() > 0, "the model is not one chain of layers");
  refuse(job.model.mtp_layers > 0, "it is not supported with multi-token prediction");
  refuse(job.model.vision.has_value(), "it is not supported with a tower in front of the model");
  refuse(!p.layouts.empty(), "stages with layouts of their own have ranks that do not match");
  refuse(p.zero > 1, "it is not supported with ZeRO-2 and 3");
  refuse(job.training.leaves_device() || job.training.offload.tiles > 1, "it is not supported with offloading");
  refuse(job.training.updates_at_once(), "it is not supported with optimizers that step inside the backward");
  refuse(job.data_parallel.served(), "it is not supported with parameter servers");
  refuse(!job.partition.layout.empty(), "its stages get layers alone, evenly or as partition.layers says");
}

void check_vision(const Job& job) {
  if (!job.model.vision) return;
  if (job.pieces > 1)
    throw UserError(
        "the schedule splits sequences into pieces, and no known framework does that to pictures in 'model.vision'; "
        "choose "
        "another one");
  if (const auto tokens = job.model.vision->tokens; tokens > job.batch.sequence)
    throw UserError(fmt::format("model.vision.tokens {} are more than a sequence has, {}; at most {}", tokens,
                                job.batch.sequence, job.batch.sequence));
}

void check_documents(const Job& job) {
  const auto& batch = job.batch;
  if (batch.lengths.empty()) return;
  const auto refuse = [](bool wrong, const char* what) {
    if (wrong) throw UserError(fmt::format("batch.lengths: {}; leave it out", what));
  };
  if (job.framework.native_kernels) {
    if (!batch.packed)
      throw UserError(
          "batch.packing: this program's own kernels do not support padding; set it to pack, or leave lengths out");
    refuse(job.model.family == models::Family::mlp, "the rows of an mlp are not tokens of documents");
    if (batch.document_mask && !job.training.causal)
      throw UserError(
          "batch.document_mask: this program's own kernels separate documents under a causal mask only; set "
          "training.causal to true, or leave document_mask out");
    if (batch.document_mask && has_states(job.model))
      throw UserError(
          "batch.document_mask: this program's own kernels carry the states of recurrent layers from document to "
          "document; leave document_mask out");
  }
  refuse(batch.document_mask && job.training.attention == models::AttentionKind::unfused,
         "without fused attention all scores of a sequence are computed, whatever a mask hides");
}

}  // namespace

void refuse_unfit(const Job& job) {
  check_rules(job), check_states(job), check_prices(job), check_sizes(job), check_vocabulary(job), check_vision(job),
      check_documents(job);
}

void refuse_step(const Job& job) {
  check_whole_matrices(job), refuse_copies(job), check_updates_at_once(job), check_adapters(job);
}

void refuse_copies(const Job& job) {
  const auto& p = job.parallelism;
  const auto& t = job.training;
  for (const auto& [key, asked] : {std::pair("parallelism.shard", p.shard > 0 && p.shard < p.data),
                                   {"parallelism.secondary_shard", p.secondary_shard > 0},
                                   {"training.fsdp.reshard_after_forward", t.reshard_over > 0},
                                   {"training.quantised_gathers", t.quantised_gathers},
                                   {"training.quantised_reductions", t.quantised_reductions}}) {
    if (!asked) continue;
    const auto refuse = [key = key](bool wrong, const char* what) {
      if (wrong) throw UserError(fmt::format("{}: {}; leave it out", key, what));
    };
    const bool own = job.framework.native_kernels, copies = std::string_view(key) == "parallelism.shard";
    refuse(own && !copies, "this program's own kernels gather parameters whole, from all that share them");
    refuse(own && job.model.is_moe(),
           "experts have other replicas, among which this program's own kernels share states");
    if (own && copies && p.shard * p.context == 1)
      throw UserError("parallelism.shard: no states are shared; set parallelism.zero to 0");
    refuse(own && job.training.offload.any(), "this program's own kernels do not support copies of offloaded states");
    refuse(job.copies > 1, "it is not supported with schedules that train two copies of the model");
    refuse(!p.layouts.empty(), "stages with layouts of their own share states among all replicas");
  }
}

// Two hops are DeepSpeed's (runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce): the first among the
// replicas of a node. On one node it reduces as ever (runtime/zero/stage3.py, __avg_scatter_grads).
std::int64_t replicas_near(const Job& job, const Mesh& mesh) {
  if (!job.training.quantised_reductions) return 1;
  const std::int64_t stride = mesh.stride(Axis::data), per_node = job.cluster.gpus_per_node;
  const std::int64_t data = job.parallelism.data, near = per_node % stride == 0 ? per_node / stride : 1;
  if (near < 2 || data % near != 0 || data == near)
    throw UserError(
        "training.quantised_reductions: gradients are summed inside nodes and then across, which needs replicas on "
        "several nodes, and several, as many, on each; leave it out");
  return near;
}

void refuse_performing(const Job& job, const std::vector<std::int64_t>& layers) {
  const auto& p = job.parallelism;
  if (job.model.family == models::Family::mlp && p.pipeline * p.chunks > 1 && layers.front() == 0)
    throw UserError("the first stage of an mlp needs at least one layer: nothing comes before its layers");
  const bool between = layers.size() > 2 && std::count(layers.begin() + 1, layers.end() - 1, 0) > 0;
  if (between || !job.partition.layout.empty())
    throw UserError(
        "this program's own kernels have layers on every stage but the first and the last, and ends on those: give "
        "partition.layers without a 0 between them");
}

}  // namespace rehearsal::plan
