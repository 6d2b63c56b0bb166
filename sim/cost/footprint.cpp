// The loads of works on shared resources: the bytes and multiprocessors behind their prices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.hpp"
#include "base/range.hpp"
#include "cost/constants.hpp"
#include "cost/cost_model.hpp"
#include "cost/gemm.hpp"
#include "fluid/flows.hpp"

namespace rehearsal::cost {
namespace {

using graph::Footprint;
using graph::Way;

constexpr std::uint32_t kRounds = 2;  // among the resources of a GPU, after its multiprocessors and its memory

// Each way of a GPU is a resource of its own; links cause no contention between a kernel and a collective.
fluid::Phase on_gpu(const std::vector<Footprint>& all) {
  fluid::Phase phase;
  for (const auto& footprint : all) {
    fluid::Flow flow{footprint.moving, footprint.rate, {}};
    for (const auto& share : footprint.shares)
      if (share.way == Way::processors || share.way == Way::memory)
        flow.uses.push_back({static_cast<std::uint32_t>(share.way), share.weight, share.hold});
      else if (share.way == Way::rounds)
        flow.uses.push_back({kRounds, share.weight, share.hold});
    phase.flows.push_back(std::move(flow));
    phase.trailing = std::max(phase.trailing, footprint.trailing);
  }
  return phase;
}

// Native kernels: how they share processors and memory with what is sent beside them was never measured.
bool inside_gpu(const graph::Share& share) {
  return share.way == Way::processors || share.way == Way::memory || share.way == Way::rounds;
}

// A share never exceeds the rate that it was derived from: alone, everything fits.
constexpr double kRoundedDown = 1 - 0x1p-40;

double memory_per_byte(CollectiveKind kind) {
  const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
  return reduces ? kMemoryPerReducedByte : kMemoryPerCopiedByte;
}

// A kernel fills all multiprocessors and touches `bytes` bytes of its GPU's memory; `trailing` time of its price is
// idle.
Footprint of_kernel(const cluster::Gpu& gpu, Time price, double bytes, Time trailing = Time{}) {
  Footprint f;
  f.trailing = std::min(price, trailing);
  f.moving = price - f.trailing;
  if (f.moving == Time{}) return f;
  const double seconds = to_seconds(f.moving);
  f.rate = std::max(graph::kLeastRate, static_cast<std::int64_t>(bytes / seconds / graph::kRateUnit));
  f.shares.push_back({Way::processors, static_cast<std::int64_t>(graph::capacity(gpu.sms) / f.rate)});
  const auto memory = graph::capacity(gpu.sustained_memory_bandwidth);
  const double busy = std::min(1., bytes / seconds / gpu.sustained_memory_bandwidth.value());
  f.shares.push_back({Way::memory, static_cast<std::int64_t>(busy * kRoundedDown * double(memory) / double(f.rate))});
  return f;
}

// A persistent GEMM with a block for each multiprocessor: blocks whose multiprocessor is taken begin a second round,
// with as many tiles each (pytorch/pytorch#143988: GEMMs of an FSDP run on H100 take twice as long beside NCCL).
bool fills_in_rounds(const cluster::Gpu& gpu, const Gemm& shape) {
  return gpu.persistent_gemms && largest_tiles(shape) > gpu.sms - static_cast<std::int64_t>(kMostChannels);
}

}  // namespace

// Weight of a load of `bytes_per_s` on each resource of a way, at the rate of the footprint.
std::int64_t CostModel::weight_of(const Footprint& f, double bytes_per_s) {
  return static_cast<std::int64_t>(bytes_per_s / graph::kRateUnit * kRoundedDown * double(graph::kWhole) /
                                   double(f.rate));
}
std::int64_t CostModel::processors_of(double count) const {
  const auto most = std::max<std::int64_t>(1, machine_.gpu.sms) - 1;
  return std::clamp<std::int64_t>(std::llround(count), 0, most) * graph::kProcessor;
}

// A collective holds its channels from start to end, and moves its bytes at an even rate: the latencies of its steps
// are spread between them, and so is any part of its price beyond the closed form.
Footprint CostModel::of_collective(const graph::Collective& work, Time price) const {
  Footprint f;
  const auto quote = communication_.terms(work.group, work.kind, work.size);
  if (!quote.choice.algorithm || price == Time{}) return {Time{}, price, 0, {}};
  f.moving = price;
  const auto& machine = communication_.machine();
  const auto& spec = machine.spec();
  const auto& reach = machine.reach(work.group);
  const auto chosen = std::find_if(quote.candidates.begin(), quote.candidates.end(),
                                   [&](const auto& c) { return c.algorithm == quote.choice.algorithm; });
  INVARIANT(chosen != quote.candidates.end() && chosen->form, "the algorithm that was chosen has a price");
  const auto& form = *chosen->form;
  const double all = to_seconds(price) * double(work.pieces);
  const bool across = !reach.out.empty();
  const double sent =
      double(quote.choice.algorithm->bytes_sent_per_rank(quote.shape, work.size).count()) / double(work.pieces);
  const double per_second = sent / to_seconds(price);

  // Each member's port, and its part of the traffic out of the domain, are as busy as in the closed form.
  const double port = reach.in_domain > 1 ? std::min(1., form.inside / all) * reach.port.value() : 0;
  const double efficiency = spec.nic_efficiency * spec.fabric;
  double wire = across ? std::min(1., form.wire / all) * quote.wires.net_rate.value() : 0;
  const double fair = across ? wire : port;  // bytes on the links that decide
  f.rate = std::max<std::int64_t>(1, static_cast<std::int64_t>(fair / graph::kRateUnit));
  if (port > 0) f.shares.push_back({along(work.inside, Way::port), weight_of(f, port)});
  if (wire > 0) {
    const bool pairs = work.kind == CollectiveKind::all_to_all;
    if (pairs) wire /= std::max(1., double(quote.shape.nodes()) - 1);
    f.shares.push_back({along(work.inside, pairs ? Way::spread : Way::wire),
                        weight_of(f, wire / efficiency / double(machine.stripes()))});
  }
  const double memory = std::min(per_second * memory_per_byte(work.kind), spec.gpu.sustained_memory_bandwidth.value());
  f.shares.push_back({Way::memory, weight_of(f, memory)});
  if (work.pieces > 1) return f;  // copy engines need no multiprocessors
  const double inside = std::clamp(kChannelsEach * std::floor(reach.port.value() / kChannelRate), 1., kMostChannels);
  f.shares.push_back({Way::processors, 0, processors_of(across ? quote.wires.channels : inside)});
  if (machine_.gpu.persistent_gemms && !work.room_kept) f.shares.push_back(second_round());
  return f;
}

// What persistent products beside it lose: half of their rate, or as much as a hold can express (a hypothetical GPU may
// have more multiprocessors).
graph::Share CostModel::second_round() const {
  return {Way::rounds, 0,
          processors_of(std::min(double(machine_.gpu.sms) / 2,
                                 double(std::numeric_limits<std::int64_t>::max() / 2) / graph::kProcessor))};
}

Footprint CostModel::of_message(const graph::Message& work, Time price) const {
  Footprint f;
  f.moving = std::min(price, counted(on_the_wire(work)));
  f.trailing = price - f.moving;
  if (f.moving == Time{}) return f;
  const auto& machine = communication_.machine();
  const auto& spec = machine.spec();
  const auto& way = machine.reach(work.from, work.to);
  const double efficiency = way.leaves_domain ? spec.nic_message_efficiency * spec.fabric : 1;
  // Its time is rounded to a picosecond; the rate of the path is not exceeded for that.
  const double rate = std::min(double(work.size.count()) / to_seconds(f.moving), way.rate.value() * efficiency);
  f.rate = std::max<std::int64_t>(1, static_cast<std::int64_t>(rate / graph::kRateUnit));
  const auto stripes = way.leaves_domain ? machine.stripes() : 1;
  f.shares.push_back({Way::path, weight_of(f, rate / efficiency / double(stripes))});
  f.shares.push_back({Way::memory, weight_of(f, std::min(rate, spec.gpu.sustained_memory_bandwidth.value()))});
  if (work.copied) return f;
  f.shares.push_back(
      {Way::processors, 0, processors_of(std::clamp(std::ceil(rate / kMessageChannelRate), 1., kMostChannels))});
  return f;
}

void CostModel::on_links_alone(Footprint& f) {
  std::erase_if(f.shares, inside_gpu);
  if (f.shares.empty()) f = {Time{}, f.moving + f.trailing, 0, {}};
}

Footprint CostModel::footprint(const graph::Work& work, Time price) const {
  const auto& gpu = machine_.gpu;
  const auto make = [&](const auto& w) {
    using Kind = std::decay_t<decltype(w)>;
    if constexpr (std::is_same_v<Kind, graph::Collective>) {
      return of_collective(w, price);
    } else if constexpr (std::is_same_v<Kind, graph::Message>) {
      return of_message(w, price);
    } else if constexpr (std::is_same_v<Kind, graph::Dispatch>) {
      return of_dispatch(w, price);
    } else if constexpr (std::is_same_v<Kind, Gemm>) {
      auto f = of_kernel(gpu, price, w.operand_bytes());
      if (f.moving > Time{} && fills_in_rounds(gpu, w)) f.shares.push_back({Way::rounds, f.shares.front().weight});
      return f;
    } else if constexpr (std::is_same_v<Kind, FusedAttention>) {
      return of_kernel(gpu, price, w.operand_bytes());
    } else if constexpr (std::is_same_v<Kind, MemoryBound>) {
      return of_kernel(gpu, price, double(w.traffic.count()));
    } else if constexpr (std::is_same_v<Kind, Kernel>) {
      return of_kernel(gpu, price, double(w.traffic().count()));
    } else if constexpr (std::is_same_v<Kind, graph::OptimizerStep>) {
      return of_kernel(gpu, price, double(w.traffic.count()), seconds(framework_.optimizer_overhead));
    } else if constexpr (std::is_same_v<Kind, graph::Copy>) {
      return of_copy(w, price);
    } else if constexpr (std::is_same_v<Kind, graph::HostStep>) {
      return of_host_step(w, price);
    } else {  // idle, or made of others, which then run one by one
      return Footprint{Time{}, price, 0, {}};
    }
  };
  return std::visit(make, work);
}

std::vector<double> CostModel::memory_traffic(std::span<const graph::Work> works) const {
  std::vector<double> all;
  all.reserve(works.size());
  const auto touched = [&](const auto& w) -> double {
    using Kind = std::decay_t<decltype(w)>;
    if constexpr (std::is_same_v<Kind, Gemm> || std::is_same_v<Kind, FusedAttention>) {
      return w.operand_bytes();
    } else if constexpr (std::is_same_v<Kind, MemoryBound> || std::is_same_v<Kind, graph::OptimizerStep>) {
      return double(w.traffic.count());
    } else if constexpr (std::is_same_v<Kind, Kernel>) {
      return double(w.traffic().count());
    } else if constexpr (std::is_same_v<Kind, graph::Collective>) {
      return double(moved(w).all().count()) * memory_per_byte(w.kind);
    } else if constexpr (std::is_same_v<Kind, graph::Dispatch>) {
      return double(moved(w).all().count()) * kMemoryPerCopiedByte;
    } else if constexpr (std::is_same_v<Kind, graph::Message> || std::is_same_v<Kind, graph::Copy>) {
      return double(w.size.count());
    } else if constexpr (std::is_same_v<Kind, graph::Overlapped>) {
      return all[w.kernel.index()] + all[w.collective.index()];
    } else if constexpr (std::is_same_v<Kind, graph::Sequence>) {
      double sum = 0;
      for (const auto& item : w.items) sum += all[item.work.index()] * item.count;
      return sum;
    } else {
      return 0;
    }
  };
  for (const auto& work : works) all.push_back(std::visit(touched, work));
  return all;
}

Time CostModel::together(const std::vector<std::vector<Footprint>>& row, const Footprint& beside) const {
  const auto& gpu = machine_.gpu;
  const std::vector<Wide> capacities{graph::capacity(gpu.sms), graph::capacity(gpu.sustained_memory_bandwidth),
                                     graph::capacity(gpu.sms)};
  fluid::Flows flows(capacities);
  std::vector<fluid::Phase> phases;
  for (const auto& all : row) phases.push_back(on_gpu(all));
  for (const auto profile : {flows.profile(phases), flows.profile({on_gpu({beside})})})
    if (flows.alone(profile) > Time{}) flows.start(0, profile);
  std::vector<fluid::Event> ended;
  while (!flows.empty()) flows.pop_instant(ended);
  return flows.now();
}

}  // namespace rehearsal::cost
