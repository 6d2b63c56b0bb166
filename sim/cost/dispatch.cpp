// How long tokens take to their experts: a copy for each expert, or one to every rank of a domain and one to every
// other domain (two hops); over NVLink and over the NICs at the same time.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost/cost_model.hpp"
#include "models/closed_forms.hpp"

namespace rehearsal::cost {
namespace {

using graph::Way;

// The bandwidth that the kernels reach: of NVLink, per multiprocessor that they hold and at most, and the number of
// these. NCCL: framework.dispatch_nvlink_share, fitted on GPUs with all links of their generation: what channels
// between two peers copy, which is the same where links are cut off, of which an exchange then reaches kOfCutLinks.
// DeepEP: 158 of 200 GB/s on H800 (its README) and, fitted on the same steps, 270 GB/s on GB200 with 24. HybridEP: its
// own table (GB200: 750 of 900 GB/s with 8 ranks and 16 multiprocessors, no more with 32, and 640 with 32 ranks, which
// is the power below) with 32, as overlapped steps lose them. NICs: DeepEP's table of two hops over 400 Gb/s (58 GB/s
// with 32 ranks and 51 with 64, a node's own tokens counted, are 43 and 45 of 50 on the wire); the others:
// framework.dispatch_nic_share, of one published step of 64 ranks over InfiniBand.
struct Kernels {
  double share, each;  // of a link; bytes/s
  double grows, processors;
  double nic;  // of the wire; 0: as the framework says
};
constexpr Kernels kNccl{1, 1e12, 0, 24, 0}, kDeepEp{.79, 11.25e9, 0, 24, .9}, kHybridEp{.83, 46.9e9, -.12, 32, 0};
// XTuner's Qwen3-235B on H800 (forced balance, all 8 ranks of a node), and shown on Pai-Megatron-Patch#658 (256 H800),
// which is 52 % too slow by the share of what is left, and 11 % by this.
constexpr double kOfCutLinks = .75;
constexpr double kOther = .15;                       // of the faster path that is not overlapped
constexpr double kFewestRanks = 8, kMostRanks = 72;  // of HybridEP's table

const Kernels& kernels(models::Dispatcher dispatcher) {
  switch (dispatcher) {
    case models::Dispatcher::nccl:
      return kNccl;
    case models::Dispatcher::deepep:
      return kDeepEp;
    case models::Dispatcher::hybridep:
      return kHybridEp;
  }
  return kNccl;
}

}  // namespace

// Bytes that the rank that all wait for sends over the domain's links, and over those out of it; or the mean of all.
CostModel::Hops CostModel::hops(const graph::Dispatch& work, Of whom) const {
  const auto& reach = communication_.machine().reach(work.group);
  const double ranks = work.group.ranks, domains = ranks / double(reach.in_domain);
  const auto& loads = work.loads;
  const double load = whom == Of::busiest || loads.empty()
                          ? work.load
                          : std::accumulate(loads.begin(), loads.end(), 0.) / double(loads.size());
  const double bytes = double(work.tokens) * double(work.each.count()) * load;
  Hops hops;
  if (!work.two_hop) {
    hops.inside = bytes * double(work.per_token) * double(reach.in_domain - 1) / ranks;
    hops.out = bytes * double(work.per_token) * (1 - 1 / domains);
    return hops;
  }
  hops.inside = bytes * models::expected_groups(work.experts, work.per_token, work.group.ranks) * (1 - 1 / ranks);
  if (domains <= 1) return hops;
  double met = models::expected_groups(work.experts, work.per_token, std::int64_t(domains));
  if (work.most_domains > 0) met = std::min(met, double(work.most_domains));
  hops.out = bytes * met * (1 - 1 / domains);
  return hops;
}

double CostModel::processors_held() const {
  return framework_.dispatch_sms > 0 ? double(framework_.dispatch_sms) : kernels(framework_.dispatcher).processors;
}

graph::Collective CostModel::as_all_to_all(const graph::Dispatch& work) {
  return {CollectiveKind::all_to_all,
          bytes(double(work.tokens) * double(work.per_token * work.each.count()) * work.load), work.group};
}

double CostModel::dispatch(const graph::Dispatch& work) const {
  if (work.group.ranks <= 1) return 0;
  // The shares above are NCCL's and the kernels'; steps of our own reach what every collective of theirs does.
  if (!work.two_hop && !communication_.runtime().library.nccl_protocols) return collective(as_all_to_all(work));
  const auto& reach = communication_.machine().reach(work.group);
  const auto& k = kernels(framework_.dispatcher);
  const bool nccl = framework_.dispatcher == models::Dispatcher::nccl;
  const auto moved = hops(work, Of::busiest);
  const double ranks = std::clamp(double(work.group.ranks), kFewestRanks, kMostRanks);
  double inside = 0, out = 0;
  if (reach.in_domain > 1) {
    const double port = reach.port.value(), uncut = machine_.nvlink_uncut.value_or(reach.port).value();
    const double share = framework_.dispatch_nvlink_share;
    const double reached =
        nccl ? std::min(port * std::max(kOfCutLinks, share), std::max(port, uncut) * share) : port * k.share;
    inside = moved.inside / (std::min(reached, k.each * processors_held()) * std::pow(ranks / kFewestRanks, k.grows));
  }
  const double nic = k.nic > 0 ? k.nic : framework_.dispatch_nic_share;
  for (const auto& border : reach.out)
    out = std::max(out, moved.out / (border.rate.value() / double(reach.in_domain) * nic * machine_.fabric));
  return std::max(inside, out) + kOther * std::min(inside, out) + framework_.dispatch_overhead;
}

graph::Footprint CostModel::of_dispatch(const graph::Dispatch& work, Time price) const {
  graph::Footprint f;
  if (price == Time{} || work.group.ranks <= 1) return {Time{}, price, 0, {}};
  f.moving = price;
  const auto& machine = communication_.machine();
  const auto& reach = machine.reach(work.group);
  const auto moved = hops(work, Of::busiest);
  const double span = to_seconds(f.moving);
  const double inside = moved.inside / span, out = moved.out / span;
  f.rate = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::max(inside, out) / graph::kRateUnit));
  const auto along = [](Way way) { return graph::along(Axis::expert, way); };
  if (reach.in_domain > 1) f.shares.push_back({along(Way::port), weight_of(f, std::min(inside, reach.port.value()))});
  if (!reach.out.empty()) {
    const double domains = double(work.group.ranks) / double(reach.in_domain);
    f.shares.push_back({along(Way::spread), weight_of(f, out / (domains - 1) / double(machine.stripes()))});
  }
  const double memory = std::min(2 * (inside + out), machine_.gpu.sustained_memory_bandwidth.value());
  f.shares.push_back({Way::memory, weight_of(f, memory)});
  f.shares.push_back({Way::processors, 0, processors_of(processors_held())});
  if (machine_.gpu.persistent_gemms && !framework_.room_for_dispatch) f.shares.push_back(second_round());
  return f;
}

graph::Moved CostModel::moved(const graph::Dispatch& work) const {
  graph::Moved moved;
  if (work.group.ranks <= 1) return moved;
  const auto& machine = communication_.machine();
  const auto& reach = machine.reach(work.group);
  const auto hops = this->hops(work, Of::mean);
  moved.sent[index(Axis::expert)] = bytes(hops.inside + hops.out);
  const auto over = [&](Way way) -> Bytes& {
    return moved.over[static_cast<std::size_t>(graph::along(Axis::expert, way))];
  };
  if (reach.in_domain > 1) over(Way::port) = bytes(hops.inside);
  const double domains = double(work.group.ranks) / double(reach.in_domain);
  if (domains > 1) over(Way::spread) = bytes(hops.out / (domains - 1) / double(machine.stripes()));
  return moved;
}

}  // namespace rehearsal::cost
