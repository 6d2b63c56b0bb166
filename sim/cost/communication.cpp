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

// Without any measured curve: the ring on the vendor's link rate, 2 (n-1) steps.
double ring_inside_node(const cluster::ClusterSpec& machine, CollectiveKind kind, std::uint32_t ranks, Bytes size) {
  if (machine.nvlink.value() <= 0)
    throw UserError(
        fmt::format("cluster '{}' has neither collective curves nor a link inside its nodes", machine.name));
  const double steps = 2. * (ranks - 1);
  const double wire = steps / ranks * double(size.count()) / (machine.nvlink.value() * kRingEfficiency);
  return share(kind) * (steps * to_seconds(machine.nvlink_latency) + wire);
}

void need_nics(const cluster::ClusterSpec& machine) {
  if (machine.node_rate().value() <= 0)
    throw UserError(fmt::format("cluster '{}' has no NICs, but ranks of different nodes communicate", machine.name));
}

}  // namespace

// Each call is a ring of its own over small pieces: its latency grows with the ranks, its rate is a part of the wire's.
double CostModel::tensor_by_tensor(const graph::Collective& work) const {
  const double n = work.group.ranks;
  const double rate = work.group.ranks > work.group.per_node ? machine_.node_rate().value() : machine_.nvlink.value();
  if (rate <= 0) need_nics(machine_);
  return double(work.tensors) * software_.sharded_tensor_latency * (n - 1) +
         double(work.size.count()) * (n - 1) / n * double(work.group.concurrent) /
             (rate * software_.sharded_tensor_efficiency);
}

double CostModel::collective(const graph::Collective& work) const {
  const auto [ranks, per_node, concurrent] = work.group;
  if (ranks <= 1 || work.size.count() <= 0) return 0;
  if (work.tensors > 1) return tensor_by_tensor(work);
  INVARIANT(per_node >= 1 && concurrent >= 1, "a group has no rank in its nodes");
  const auto inside = [&](std::uint32_t n) {
    if (n <= 1) return 0.;
    if (curves_.measured.empty() && curves_.fitted.empty()) return ring_inside_node(machine_, work.kind, n, work.size);
    return curves_.time(work.kind, n, work.size);
  };
  if (ranks <= per_node) return inside(ranks);

  // Across nodes: a ring that leaves each node over its NICs and crosses the links inside the node at the same time.
  // The longer part decides; 0.15 of the shorter does not hide. Latency per node hop, rings up to NCCL's turn to trees.
  need_nics(machine_);
  const double nodes = double(ranks) / double(per_node);
  const double sent = 2. * double(ranks - 1) / double(ranks) * double(work.size.count());
  const double wire =
      share(work.kind) * sent * double(concurrent) / (machine_.node_rate().value() * machine_.nic_efficiency);
  const double in_node = inside(per_node);
  const double hops = std::min(nodes - 1, 2 * std::log2(std::max(2., nodes)) + kTreeDepthOffset);
  return std::max(wire, in_node) + kOverlapLoss * std::min(wire, in_node) +
         share(work.kind) * 2 * to_seconds(machine_.nic_latency) * hops;
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
      // A GPU reaches its own NICs; senders that outnumber the NICs share them.
      const double own =
          machine_.nic.value() * std::max(1., double(machine_.nics_per_node) / double(machine_.gpus_per_node));
      const double shared = machine_.node_rate().value() / double(std::max(1U, work.senders));
      transfer = size / (std::min(own, shared) * machine_.nic_message_efficiency);
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
