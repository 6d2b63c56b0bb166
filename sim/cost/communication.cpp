// Collectives and messages of the cost model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/constants.hpp"
#include "cost/cost_model.hpp"

namespace rehearsal::cost {
namespace {

// Share of a ring all-reduce: reduce-scatter and all-gather are its two halves.
double share(CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 1 : .5; }

const char* ring_of(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce   ? "ring-all-reduce"
         : kind == CollectiveKind::all_gather ? "ring-all-gather"
                                              : "ring-reduce-scatter";
}

void need_nics(const cluster::ClusterSpec& machine) {
  if (machine.node_rate().value() <= 0)
    throw UserError(fmt::format("cluster '{}' has no NICs, but ranks of different nodes communicate", machine.name));
}

// NICs of a node that all groups of a kind use together. A group of all its GPUs, or of one, uses those beside them.
// One of several but not all finds no two of its GPUs beside the same NIC to enter and to leave by, and stays with
// `nics_per_group` of them, where that is known (sim/design/partial-node-groups.md).
std::int64_t nics_used(const cluster::ClusterSpec& machine, const GroupShape& group) {
  if (machine.nics_per_group == 0 || group.per_node == 1 || group.concurrent == 1) return machine.nics_per_node;
  return std::min(machine.nics_per_node, machine.nics_per_group * std::int64_t(group.concurrent));
}

double tree_hops(double nodes) { return 2 * std::log2(std::max(2., nodes)) + kTreeDepthOffset; }

}  // namespace

collective::Choice CostModel::inside_node(CollectiveKind kind, std::uint32_t ranks, Bytes size) const {
  const auto& links = collective::generation(machine_.nvlink_generation, machine_.nvlink);
  if (curves_.measured.empty() && curves_.fitted.empty()) {
    if (machine_.nvlink.value() <= 0)
      throw UserError(
          fmt::format("cluster '{}' has neither collective curves nor a link inside its nodes", machine_.name));
    return collective::in_node(kind, ranks, size, machine_.nvlink, links);
  }
  auto choice = collective::choose_in_node(kind, ranks, size, links);  // a measured time holds NCCL's choice already
  choice.seconds = curves_.time(kind, ranks, size);
  return choice;
}

// Across nodes: rings (or trees) that leave each node over its NICs and cross the links inside the node at the same
// time. The longer part decides; 0.15 of the shorter does not hide. Of ring and tree NCCL takes the faster one.
collective::Choice CostModel::across_nodes(const graph::Collective& work) const {
  const auto& group = work.group;
  need_nics(machine_);
  const double nodes = double(group.ranks) / double(group.per_node);
  const double sent = 2. * double(group.ranks - 1) / double(group.ranks) * double(work.size.count());
  const double out =  // of a node, bytes/s
      machine_.nic.value() * double(nics_used(machine_, group)) * machine_.nic_efficiency * machine_.fabric;
  const double wire = share(work.kind) * sent * double(group.concurrent) / out;
  const double in_node = group.per_node > 1 ? inside_node(work.kind, group.per_node, work.size).seconds : 0;
  const double hop = share(work.kind) * 2 * to_seconds(machine_.nic_latency);
  const auto time = [&](double on_wire, double hops) {
    return std::max(on_wire, in_node) + kOverlapLoss * std::min(on_wire, in_node) + hop * hops;
  };
  const double ring = time(wire, nodes - 1);
  if (work.kind == CollectiveKind::all_reduce) {
    const double tree = time(wire / kTreeRate, tree_hops(nodes));
    return tree < ring ? collective::Choice{"tree-all-reduce", tree, {}}
                       : collective::Choice{ring_of(work.kind), ring, {}};
  }
  // NCCL has no trees for these two; its logarithmic PAT needs one GPU a node, and prices its messages by 2.8 us a
  // rank.
  const double pat = time(wire / kPatRate, std::log2(std::max(2., nodes)) / kPatHops) + kPatPerRank * group.ranks;
  if (group.per_node > 1 || ring <= pat) return {ring_of(work.kind), ring, {}};
  return {work.kind == CollectiveKind::all_gather ? "pat-all-gather" : "pat-reduce-scatter", pat, {}};
}

collective::Choice CostModel::choose(const graph::Collective& work) const {
  const auto& group = work.group;
  if (group.ranks <= 1 || work.size.count() <= 0) return {};
  INVARIANT(group.per_node >= 1 && group.concurrent >= 1, "a group has no rank in its nodes");
  if (work.tensors > 1) return {ring_of(work.kind), tensor_by_tensor(work), "one small call for each tensor"};
  return group.ranks <= group.per_node ? inside_node(work.kind, group.ranks, work.size) : across_nodes(work);
}

// Each call is a ring of its own over small pieces: its latency grows with the ranks, its rate is a part of the wire's.
double CostModel::tensor_by_tensor(const graph::Collective& work) const {
  const double n = work.group.ranks;
  const double rate = work.group.ranks > work.group.per_node ? machine_.node_rate().value() : machine_.nvlink.value();
  if (rate <= 0) need_nics(machine_);
  return double(work.tensors) * software_.sharded_tensor_latency * (n - 1) +
         double(work.size.count()) * (n - 1) / n * double(work.group.concurrent) /
             (rate * software_.sharded_tensor_efficiency);
}

double CostModel::collective(const graph::Collective& work) const { return choose(work).seconds; }

std::string CostModel::why(const graph::Collective& work) const {
  const auto choice = choose(work);
  const auto& group = work.group;
  if (!choice.reason.empty() || choice.algorithm.empty()) return std::string(choice.reason);
  const double nodes = double(group.ranks) / double(group.per_node), ring_hops = nodes - 1;
  std::string text;
  if (choice.algorithm.starts_with("tree"))
    text = fmt::format("{:.0f} hops at {} of the rate instead of {:.0f}", tree_hops(nodes), kTreeRate, ring_hops);
  else if (choice.algorithm.starts_with("pat"))
    text = fmt::format("one GPU a node: log2 k steps instead of {:.0f} hops", ring_hops);
  else
    text = fmt::format("{:.0f} hop{}", ring_hops, ring_hops == 1 ? "" : "s");
  if (const auto nics = nics_used(machine_, group); nics < machine_.nics_per_node)
    text += fmt::format(", {} of {} NICs for the {} groups of a node", nics, machine_.nics_per_node, group.concurrent);
  return text;
}

// L of a measured message. Where the ranks hand it over themselves, that takes o_s of the sender and o_r of the
// receiver, and the wire what is left of L: then a receive ends at max(wait posted + o_r, send posted + L).
double CostModel::message(const graph::Message& work) const {
  if (profile_ && profile_->has_messages() && !work.crosses_nodes && work.gathered.count() == 0) {
    if (work.size.count() <= 0) return 0;
    const double latency = collective::interpolate(profile_->messages.latency, work.size);
    if (!software_.own_kernels) return latency;
    return std::max(0., latency - handover({work.size, false}) - handover({work.size, true}));
  }
  const double size = double(work.size.count());
  double transfer = 0;
  if (work.size.count() > 0) {
    const double in_node = machine_.nvlink_message.value();  // also feeds the NIC: the slower of both counts
    if (work.crosses_nodes) {
      need_nics(machine_);
      // A GPU sends over the NICs beside it. Where NICs are fewer, neighbours share one, and senders are neighbours.
      const double nics_per_gpu = double(machine_.nics_per_node) / double(machine_.gpus_per_node);
      const double own =
          nics_per_gpu >= 1 ? nics_per_gpu : 1 / std::min(double(std::max(1U, work.senders)), 1 / nics_per_gpu);
      transfer = size / (machine_.nic.value() * own * machine_.nic_message_efficiency * machine_.fabric);
      if (in_node > 0) transfer = std::max(transfer, size / in_node);
    } else {
      if (in_node <= 0)
        throw UserError(
            fmt::format("cluster '{}' has no 'nvlink_message' rate for sends inside a node", machine_.name));
      transfer = size / in_node;
    }
  }
  double gather = 0;
  if (work.gathered.count() > 0 && work.gather_ranks > 1) {
    const double rate = machine_.nvlink_gather.value() > 0 ? machine_.nvlink_gather.value() : machine_.nvlink.value();
    INVARIANT(rate > 0, "a sharded send has no link to be gathered over");
    gather = double(work.gathered.count()) * double(work.gather_ranks - 1) / double(work.gather_ranks) / rate;
  }
  return to_seconds(machine_.message_overhead) + transfer + gather;
}

}  // namespace rehearsal::cost
