// Which states may leave the device together, and what that requires of layout and machine: the combinations that
// DeepSpeed has (ZeRO-Offload, arXiv 2101.06840; ZeRO-Infinity, 2104.07857).
#include <fmt/format.h>

#include "plan/rules.hpp"

namespace rehearsal::plan {
namespace {

// Whether the GPU updates masters of its own and hands parameters back to the host: ZeRO-3 with offload_param alone,
// whose masters are copies that stay on the GPU (runtime/zero/stage3.py, _create_fp32_partitions).
bool hands_back(const models::Training& t, const models::Framework& framework, const Parallelism& p) {
  const auto& o = t.offload;
  const bool masters = t.master_copy && t.optimizer->master && bytes_per_element(t.precision) < 4;
  return o.parameters == Tier::host && o.optimizer == Tier::device && p.zero == 3 && masters && !o.one_owner &&
         !t.updates_at_once() && !framework.native_kernels;
}

// The optimizer reads gradients and writes parameters: neither may be farther from the GPU than it is.
void order(const models::Training& t, const models::Framework& framework, const Parallelism& p,
           std::vector<Violation>& all) {
  const auto& o = t.offload;
  const auto farther = [&](const char* key, Tier tier) {
    if (tier > o.optimizer)
      all.push_back({fmt::format("training.offload.{}", key),
                     fmt::format("{} on {} while the optimizer is on {}: every update would fetch them from there; set "
                                 "training.offload.optimizer to {}",
                                 key, name(tier), name(o.optimizer), name(tier))});
  };
  farther("gradients", o.gradients);
  if (!hands_back(t, framework, p)) farther("parameters", o.parameters);
}

std::string behind_the_backward(const models::Training& t) {
  return t.optimizer_in_backward ? "leave training.optimizer_in_backward out" : "set training.optimizer to adamw";
}

void partitioned(const models::Training& t, const Parallelism& p, std::vector<Violation>& all) {
  const auto add = [&](const char* key, std::string rule) { all.push_back({key, std::move(rule)}); };
  if (!t.cuts_checkpoints()) return;
  if (t.recompute != models::Recompute::full)
    add("training.partition_activations",
        "only layer checkpoints are partitioned, from which the backward recomputes; set training.recompute to full");
  if (p.tensor == 1 || p.sequence)
    add("training.partition_activations",
        p.sequence ? "with sequence parallelism each tensor rank keeps its own part already; leave one of them out"
                   : "checkpoints are partitioned over the tensor group; set parallelism.tensor to 2 or more");
}

void layout(const models::Transformer& model, const models::Training& t, const Parallelism& p, std::int64_t copies,
            std::vector<Violation>& all) {
  const auto& o = t.offload;
  const auto replicas = p.data * p.context * copies;
  const auto add = [&](const char* key, std::string rule) { all.push_back({key, std::move(rule)}); };
  if (o.optimizer != Tier::device && replicas > 1 && p.zero == 0)
    add("training.offload.optimizer",
        "each of the replicas would update all parameters on its host; set parallelism.zero to 1, 2 or 3");
  if (o.optimizer_fraction < 1 && (o.gradients != Tier::device || o.parameters != Tier::device))
    add("training.offload.optimizer_fraction",
        "the GPU updates the rest from its own gradients and parameters; leave training.offload.gradients and "
        "parameters on the device");
  if (o.gradients != Tier::device && replicas > 1 && p.zero < 2)
    add("training.offload.gradients",
        "gradients are offloaded as they are reduced to shards, which zero 2 and 3 do; set parallelism.zero to 2");
  if (o.parameters != Tier::device && replicas > 1 && p.zero != 3)
    add("training.offload.parameters",
        "parameters are fetched from another tier when zero 3 gathers them; set parallelism.zero to 3");
  if (o.one_owner && (o.parameters == Tier::device || replicas == 1))
    add("training.offload.owner",
        "it says which of several replicas fetches 'training.offload.parameters' from another "
        "tier; leave it out");
  if (o.delayed_update && o.gradients == Tier::device)
    add("training.offload.delayed_update",
        "the host updates from the gradients of the previous step, which wait in its memory; set "
        "training.offload.gradients "
        "and training.offload.optimizer to host");
  if (o.delayed_update && o.parameters != Tier::device)
    add("training.offload.delayed_update",
        "passes would fetch parameters while the host writes newer ones in their place; leave "
        "training.offload.parameters on the device");
  // Experts that no other GPU shares are replicated as everything else is.
  const bool apart = p.expert * p.expert_tensor != p.tensor || p.shard > 0;
  if (o.states() && model.is_moe() && apart && (o.gradients != Tier::device || o.parameters != Tier::device))
    add("training.offload",
        "experts have replicas of their own, whose gradients and parameters stay on the device; "
        "offload the optimizer alone, or leave parallelism.expert out");
  if (o.states() && t.updates_at_once())
    add("training.offload", fmt::format("{} updates inside the backward, where its states are; {}", t.optimizer->name,
                                        behind_the_backward(t)));
  const bool part = o.activation_share || o.activation_layers, again = t.recompute == models::Recompute::full;
  if (o.activations != Tier::device && !again && !part)
    add("training.offload.activations",
        "only layer checkpoints are offloaded, from which the backward recomputes; set training.recompute to full, or "
        "say how much of other activations is offloaded, such as {share: 0.5}");
  if (!part) return partitioned(t, p, all);
  if (again)
    add("training.offload.activations",
        "'share' and 'layers' are for layers that keep their activations, and recompute full keeps checkpoints alone, "
        "all of which are offloaded; set it to host");
  else if (o.activations != Tier::host)
    add("training.offload.activations.to", "a share of the activations can go to the host only; set it to host");
  partitioned(t, p, all);
}

// In a framework a skip connection is the tensor that the layer after its source keeps for the backward. If that leaves
// the device, is sharded or copied elsewhere, the skip would still hold it. Native kernels make a copy.
void skips(const models::Transformer& model, const models::Training& t, const models::Framework& framework,
           std::vector<Violation>& all) {
  if (model.skips() == 0 || framework.native_kernels || t.recompute != models::Recompute::full) return;
  const auto refuse = [&](const char* key, const char* what) {
    all.push_back({key, fmt::format("{} while skip connections of model '{}' still need their contents; leave it out, "
                                    "or set 'framework: native', whose skips are copies",
                                    what, model.name)});
  };
  if (t.offload.activations != Tier::device) refuse("training.offload.activations", "checkpoints leave the device");
  if (t.cuts_checkpoints())
    refuse("training.partition_activations", "checkpoints are partitioned over the tensor group");
  if (t.defragment && t.keeps_checkpoints() && !t.cuts_checkpoints())
    refuse("training.defragment", "checkpoints are copied to another place");
}

// Options that native kernels do not support.
void performed(const models::Transformer& model, const models::Training& t, const Parallelism& p,
               std::vector<Violation>& all) {
  const auto& o = t.offload;
  const auto add = [&](const char* key, std::string rule) { all.push_back({key, std::move(rule)}); };
  if (o.states() && !t.optimizer->on_host)
    add("training.offload.optimizer",
        fmt::format("this program's own {} does not run on a host; set training.optimizer to adamw",
                    t.optimizer->name));
  if (o.gradients != Tier::device && model.tie_embeddings && p.pipeline > 1)
    add("training.offload.gradients",
        "a tied table has gradients on the first and the last stage, which this program's own kernels sum on the "
        "device; set model.tie_embeddings to false");
  if (o.optimizer_fraction < 1)
    add("training.offload.optimizer_fraction",
        "this program's own kernels update all parameters in one place; leave it out, or choose another 'framework'");
  if (o.activation_share || o.activation_layers)
    add("training.offload.activations",
        "this program's own kernels offload whole checkpoints; leave 'share' and 'layers' out");
  if (o.one_owner)
    add("training.offload.owner",
        "this program's own kernels fetch a share on every rank; leave it out, or choose another 'framework'");
}

void machine(const models::Offload& o, const cluster::Host& host, std::vector<Violation>& all) {
  const auto need = [&](bool given, const char* key, const char* why) {
    if (!given) all.push_back({"training.offload", fmt::format("'cluster.host.{}' is needed: {}", key, why)});
  };
  need(host.memory.has_value(), "memory", "a tier without a capacity fits anything");
  need(host.memory_bandwidth.has_value(), "memory_bandwidth", "every copy reads or writes it");
  need(host.pcie.has_value(), "pcie.bandwidth", "copies go over it");
  if (o.optimizer != Tier::device) need(host.cores.has_value(), "cores", "they update");
  if (!o.reaches(Tier::nvme)) return;
  need(host.nvme.has_value(), "nvme.capacity", "a tier without a capacity fits anything");
  need(host.nvme_read.has_value() && host.nvme_write.has_value(), "nvme", "its rates, 'read' and 'write'");
}

// Tiles need parameters and gradients that are moved by tasks of their own.
void tiles(const models::Training& t, const models::Framework& framework, const Parallelism& p,
           std::vector<Violation>& all) {
  const auto add = [&](std::string rule) { all.push_back({"training.offload.tiles", std::move(rule)}); };
  const auto replicas = p.data * p.context;
  if (framework.native_kernels)
    return add("this program's own kernels run an operator as a whole; leave it out, or choose another 'framework'");
  if (t.offload.parameters == Tier::device && (replicas == 1 || p.zero != 3))
    add("a tile holds its parameters only while it computes, so they must be gathered or fetched; "
        "set parallelism.zero to 3, or training.offload.parameters to host");
  if (t.updates_at_once())
    add(fmt::format("{} reduces and updates whole tensors, not tiles; {}", t.optimizer->name, behind_the_backward(t)));
  if (framework.async_tensor && p.tensor > 1 && p.sequence)
    add("'framework.async_tensor' cuts products into pieces that travel over the tensor group, each with all "
        "parameters; "
        "leave one of them out");
  if (t.recompute == models::Recompute::selective && t.recompute_modules.empty() &&
      framework.selective_recompute == models::SelectiveRecompute::operators)
    add("which products 'recompute: selective' of this framework repeats depends on their number, which tiles change; "
        "set training.recompute to full or none");
}

void defragment(const models::Training& t, const models::Framework& framework, const Parallelism& p,
                std::vector<Violation>& all) {
  const auto add = [&](std::string rule) { all.push_back({"training.defragment", std::move(rule)}); };
  if (framework.native_kernels)
    return add("this program's own kernels have no allocator, all their memory is contiguous; leave it out");
  if (t.allocator == models::Allocator::exact)
    add("nothing is fragmented with 'training.allocator: exact'; leave one of them out");
  const bool gradients = (p.data * p.context > 1 && p.zero >= 2) || t.offload.gradients != Tier::device;
  if (!t.keeps_checkpoints() && (!gradients || t.updates_at_once()))
    add("only checkpoints that stay on the GPU and gradients that wait for their reduction are copied; set "
        "training.recompute to full without offloading activations, or parallelism.zero to 2 or 3");
}

}  // namespace

std::vector<Violation> broken_by_offload(const models::Transformer& model, const models::Training& training,
                                         const models::Framework& framework, const Parallelism& parallelism,
                                         const cluster::Host& host, std::int64_t copies) {
  std::vector<Violation> all;
  const auto& offload = training.offload;
  if (offload.tiles > 1) tiles(training, framework, parallelism, all);
  if (offload.optimizer_fraction < 1 && offload.optimizer == Tier::device)
    all.push_back(
        {"training.offload.optimizer_fraction",
         "it says which share of the optimizer states is offloaded, and none is; set training.offload.optimizer "
         "to host, or leave it out"});
  if (training.defragment) defragment(training, framework, parallelism, all);
  skips(model, training, framework, all);
  if (!offload.any() && !training.cuts_checkpoints()) return all;
  order(training, framework, parallelism, all);
  layout(model, training, parallelism, copies, all);
  if (framework.native_kernels) performed(model, training, parallelism, all);
  if (training.leaves_device()) machine(offload, host, all);
  return all;
}

}  // namespace rehearsal::plan
