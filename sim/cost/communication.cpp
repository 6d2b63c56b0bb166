// Collectives and messages of the cost model: placed on the machine, priced by the registered algorithms.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "cost/constants.hpp"
#include "cost/cost_model.hpp"

namespace rehearsal::cost {
namespace {

void need_link(const cluster::ClusterSpec& machine, Bandwidth rate) {
  if (rate.value() <= 0)
    throw UserError(fmt::format("cluster '{}' has no link between GPUs that communicate", machine.name));
}

// The machine that size curves were measured on: one node, or as many as its largest curve spans. What it does not
// specify of the links between nodes is taken from `here`.
cluster::ClusterSpec measured_on(const collective::SizeCurves& curves, const cluster::ClusterSpec& here) {
  const auto& there = curves.measured_on;
  auto spec = here;
  spec.name = "of the curves " + curves.name;
  spec.groups.clear();
  // A name says no parameters: sockets of pcie-host. Where it is that of this machine, they are its own.
  const auto& inside_here = here.node_topology.name.empty() ? here.topology : here.node_topology;
  const auto inside = inside_here.name == there.topology ? inside_here : cluster::TopologyChoice{there.topology, {}};
  spec.topology = inside, spec.node_topology = {};
  spec.gpus_per_node = there.gpus, spec.nodes = 1;
  spec.nvlink = there.nvlink * (1 / curves.time_factor);
  const auto turned = [&](Time time) { return seconds(to_seconds(time) * curves.time_factor); };
  spec.nvlink_latency = turned(there.latency);
  spec.interconnect = there.interconnect;
  for (Time* time : {&spec.interconnect.launch, &spec.interconnect.step, &spec.interconnect.ramp,
                     &spec.interconnect.switch_launch, &spec.interconnect.switch_ramp})
    *time = turned(*time);
  if (!curves.across_nodes()) return spec;
  spec.nodes = (curves.most_ranks() + there.gpus - 1) / there.gpus;
  spec.topology = here.nodes > 1 ? here.topology : cluster::TopologyChoice{"rail-optimized", {}};
  spec.node_topology = inside;
  spec.nics_per_node = there.nics.value_or(here.nics_per_node > 0 ? here.nics_per_node : there.gpus);
  spec.nic = there.nic.value_or(here.nic) * (1 / curves.time_factor);
  spec.nic_latency = turned(there.nic_latency.value_or(here.nic_latency));
  spec.nic_ramp = turned(here.nic_ramp);
  return spec;
}

// The runtime over these links, without reducing switches if the topology has none.
collective::Runtime runtime_on(const cluster::Machine& machine, Version version,
                               const collective::Registry& algorithms) {
  collective::Runtime runtime{machine.spec().interconnect, machine.spec().library, version, &algorithms};
  if (!machine.inside().reduces) runtime.links.switch_share = 0;
  return runtime;
}

// Whether collectives of a kind may be reduced in switches; for `ranks` ranks, if given.
bool switches_add(const collective::Runtime& runtime, CollectiveKind kind, std::optional<std::uint32_t> ranks = {}) {
  return runtime.links.switch_share > 0 &&
         std::any_of(runtime.algorithms->begin(), runtime.algorithms->end(), [&](const auto& named) {
           const auto& [name, algorithm] = named;
           if (algorithm.kind != kind || algorithm.switches == 0) return false;
           const auto entry = runtime.library.algorithms.find(name);
           return entry != runtime.library.algorithms.end() && entry->second.since <= runtime.version &&
                  (!ranks || collective::refusal(algorithm, *ranks, runtime) == collective::Refusal::none);
         });
}

}  // namespace

CommunicationModel::CommunicationModel(const cluster::ClusterSpec& spec, collective::SizeCurves curves, Version version,
                                       const collective::Registry& algorithms)
    : machine_(spec),
      curves_(std::move(curves)),
      runtime_(runtime_on(machine_, version, algorithms)),
      rings_(runtime_) {
  rings_.links.switch_share = 0;
  for (std::size_t kind = 0; kind < least_measured_.size(); ++kind)
    least_measured_[kind] = curves_.least_ranks(CollectiveKind(kind));
  if (curves_.empty() || curves_.measured_on.nvlink.value() <= 0) return;
  const auto there = measured_on(curves_, spec);
  auto one_node = there;
  if (curves_.across_nodes()) one_node.nodes = 1, one_node.topology = there.node_topology, one_node.node_topology = {};
  cluster::Machine machine(one_node);
  auto runtime = runtime_on(machine, curves_.measured_on.nccl, algorithms);
  reference_.emplace(Reference{std::move(machine), std::move(runtime)});
  if (!curves_.across_nodes()) return;
  auto of_one_node = curves_;
  std::erase_if(of_one_node.measured,
                [&](const auto& curve) { return std::int64_t{curve.first.second} > curves_.measured_on.gpus; });
  whole_ =
      std::make_shared<const CommunicationModel>(there, std::move(of_one_node), curves_.measured_on.nccl, algorithms);
}

// Rings use all links between the members; exchanges with all members, or with the next one, use the direct routes.
collective::Wires CommunicationModel::wires_inside(const cluster::Machine& machine, const GroupShape& group,
                                                   CollectiveKind kind) {
  const auto& reach = machine.reach(group);
  collective::Wires wires;
  const bool to_all = kind == CollectiveKind::all_to_all, ring = !to_all && kind != CollectiveKind::shift;
  wires.rate = ring ? reach.port : machine.pairs(group, to_all);
  wires.latency = to_seconds(reach.latency);
  need_link(machine.spec(), wires.rate);
  return wires;
}

// The fastest algorithm among neighbours of a domain on the wires of `machine`, without what was measured.
collective::Choice CommunicationModel::formula(const cluster::Machine& machine, const GroupShape& group,
                                               CollectiveKind kind, Bytes size, const collective::Runtime& runtime) {
  return collective::inside_node(kind, static_cast<std::uint32_t>(machine.reach(group).in_domain), size,
                                 wires_inside(machine, group, kind), runtime);
}

// Measurements with reducing switches say nothing of links alone, nor the reverse; nor do they apply to groups too
// small for switches, if the smallest measured group runs in them.
bool CommunicationModel::corrects(CollectiveKind kind, std::uint32_t ranks) const {
  const auto least = least_measured_[static_cast<std::size_t>(kind)];
  if (least == 0) return false;
  if (!reference_) return true;
  const auto& there = reference_->runtime;
  if (switches_add(there, kind) != switches_add(runtime_, kind)) return false;
  return ranks >= least || switches_add(there, kind, least) == switches_add(runtime_, kind, ranks);
}

// A measured curve includes everything that formulas leave out, on the wires that it was measured on. On others it is
// scaled as the formulas are: exact on the measured machine, with the effect of every link elsewhere. No time is below
// that of the wire.
collective::Choice CommunicationModel::inside(const GroupShape& group, CollectiveKind kind, Bytes size) const {
  const auto& reach = machine_.reach(group);
  auto choice = formula(machine_, group, kind, size, runtime_);
  const auto ranks = static_cast<std::uint32_t>(reach.in_domain);
  if (!choice.algorithm || !corrects(kind, ranks)) return choice;
  const auto there = [&](std::uint32_t n, Bytes bytes) {
    return reference_ ? formula(reference_->machine, {n, 1}, kind, bytes, reference_->runtime).seconds
                      : formula(machine_, {n, 1}, kind, bytes, runtime_).seconds;
  };
  const double scale = reference_ ? choice.seconds / there(ranks, size) : 1;
  const auto port = wires_inside(machine_, group, kind).rate;
  choice.seconds = std::max(curves_.time(kind, ranks, size, there) * scale,
                            collective::on_the_wire(*choice.algorithm, ranks, size, port));
  return choice;
}

// The ratio of measured times of whole nodes to prices of the measured machine, for as many nodes as here.
std::optional<double> CommunicationModel::across(const GroupShape& group, CollectiveKind kind, Bytes size) const {
  using enum collective::SizeCurves::Of;
  if (!whole_ || !curves_.holds(kind, whole_nodes)) return std::nullopt;
  const auto& reach = machine_.reach(group);
  const auto nodes = (reach.ranks + reach.in_domain - 1) / reach.in_domain;
  const auto ranks = static_cast<std::uint32_t>(nodes * curves_.measured_on.gpus);
  const auto there = [&](std::uint32_t n, Bytes bytes) { return whole_->choose({n, 1}, kind, bytes).seconds; };
  return curves_.time(kind, ranks, size, there, whole_nodes) / there(ranks, size);
}

double CommunicationModel::channels(const GroupShape& group) const {
  const auto& reach = machine_.reach(group);
  return reach.out.empty() ? 1 : std::clamp(kChannelsEach * double(reach.nics), 1., kMostChannels);
}

collective::Wires CommunicationModel::wires_across(const GroupShape& group, CollectiveKind kind, Bytes size) const {
  const auto& spec = machine_.spec();
  const auto& reach = machine_.reach(group);
  collective::Wires wires;
  wires.channels = channels(group);
  wires.nccl_protocols = runtime_.library.nccl_protocols;
  if (reach.in_domain > 1) {
    const auto choice = inside(group, kind, size);
    wires.inside = wires.ring_inside = choice.seconds;
    if (choice.algorithm && choice.algorithm->switches > 0)
      wires.ring_inside *=
          formula(machine_, group, kind, size, rings_).seconds / formula(machine_, group, kind, size, runtime_).seconds;
    wires.rate = wires_inside(machine_, group, kind).rate * runtime_.links.ring_share;
    wires.latency = to_seconds(reach.latency);
  }
  Bandwidth narrowest;
  for (const auto& border : reach.out) {
    const auto rate = border.rate * (spec.nic_efficiency * spec.fabric);
    wires.crossings.push_back({static_cast<std::uint32_t>(border.members), rate});
    if (narrowest.value() == 0 || rate < narrowest) narrowest = rate;
    wires.net_latency = std::max(wires.net_latency, to_seconds(border.latency));
  }
  wires.net_rate = narrowest / double(reach.in_domain);
  need_link(spec, wires.net_rate);
  return wires;
}

collective::Choice CommunicationModel::choose(const GroupShape& group, CollectiveKind kind, Bytes size) const {
  if (group.ranks <= 1 || size.count() <= 0) return {};
  const auto& reach = machine_.reach(group);
  const collective::Shape shape(group.ranks, static_cast<std::uint32_t>(reach.in_domain));
  collective::Choice choice;
  if (reach.out.empty()) {
    choice = inside(group, kind, size);
  } else {
    const auto measured = across(group, kind, size);
    const auto priced = [&](const collective::Algorithm& algorithm, double seconds) {
      // Prices that measured times are compared with are bounded by shared links, too.
      seconds = std::max(seconds + ramp(algorithm, group, size), shared(algorithm, group, size));
      if (!measured) return seconds;
      return std::max(seconds * *measured,
                      collective::split(algorithm, shape, size).out / reach.out.front().rate.value());
    };
    choice = collective::across_nodes(kind, shape, size, wires_across(group, kind, size), runtime_, priced);
  }
  // A kernel that copies to one peer does not fill the links: its messages cost what they cost elsewhere.
  if (kind == CollectiveKind::shift && choice.algorithm)
    for (const auto& send : sends_of_shift(group, size)) choice.seconds = std::max(choice.seconds, message(send));
  return choice;
}

collective::Execution CommunicationModel::execution(const GroupShape& group, CollectiveKind kind, Bytes size,
                                                    const collective::Algorithm* by) const {
  size = std::max(size, Bytes(1));
  if (!by) by = choose(group, kind, size).algorithm;
  if (!by) return {};
  const collective::Shape shape(group.ranks, static_cast<std::uint32_t>(machine_.reach(group).in_domain));
  return collective::execution(*by, shape, size, channels(group));
}

// Seconds until NICs, their queues and what feeds them are full: as inside a node, the root of the time on the wire.
double CommunicationModel::ramp(const collective::Algorithm& algorithm, const GroupShape& group, Bytes size) const {
  const auto& spec = machine_.spec();
  const auto& reach = machine_.reach(group);
  if (spec.nic_ramp <= Time{} || reach.out.empty()) return 0;
  const collective::Shape shape(group.ranks, static_cast<std::uint32_t>(reach.in_domain));
  double rate = std::numeric_limits<double>::infinity();
  for (const auto& border : reach.out) rate = std::min(rate, border.rate.value());
  const double wire = collective::split(algorithm, shape, size).out / (rate * spec.nic_efficiency * spec.fabric);
  return std::sqrt(to_seconds(spec.nic_ramp) * wire);
}

// Seconds of links between GPUs that traffic to NICs uses as well.
double CommunicationModel::shared(const collective::Algorithm& algorithm, const GroupShape& group, Bytes size) const {
  const collective::Shape shape(group.ranks, static_cast<std::uint32_t>(machine_.reach(group).in_domain));
  auto moved = collective::split(algorithm, shape, size);
  if (algorithm.kind == CollectiveKind::broadcast)
    moved.out = double(size.count());  // out of the first node, not on average
  return machine_.on_shared_links(group, moved.inside, moved.out, algorithm.kind == CollectiveKind::all_to_all) /
         runtime_.links.ring_share;
}

std::vector<graph::Message> CommunicationModel::sends_of_shift(const GroupShape& group, Bytes size) const {
  const auto& reach = machine_.reach(group);
  const auto send = [&](std::int64_t from) {
    return graph::Message{size, static_cast<std::uint32_t>(from * group.stride),
                          static_cast<std::uint32_t>((from + 1) % group.ranks * group.stride), Bytes(), 1};
  };
  std::vector<graph::Message> sends;
  if (reach.in_domain > 1) sends.push_back(send(0));
  if (!reach.out.empty()) sends.push_back(send(reach.in_domain - 1));
  return sends;
}

Quote CommunicationModel::quote(const GroupShape& group, CollectiveKind kind, Bytes size) const {
  auto quote = terms(group, kind, size);
  const auto& reach = machine_.reach(group);
  if (!quote.choice.algorithm) return quote;
  if (reach.in_domain > 1) {
    quote.inside = inside(group, kind, size);
    if (corrects(kind, static_cast<std::uint32_t>(reach.in_domain)))
      quote.correction = quote.inside.seconds / formula(machine_, group, kind, size, runtime_).seconds;
  }
  if (!reach.out.empty()) quote.across = across(group, kind, size);
  return quote;
}

Quote CommunicationModel::terms(const GroupShape& group, CollectiveKind kind, Bytes size) const {
  Quote quote;
  quote.choice = choose(group, kind, size);
  const auto& reach = machine_.reach(group);
  quote.shape = {group.ranks, static_cast<std::uint32_t>(reach.in_domain)};
  if (!quote.choice.algorithm) return quote;
  quote.wires = reach.out.empty() ? wires_inside(machine_, group, kind) : wires_across(group, kind, size);
  quote.candidates = collective::candidates(kind, quote.shape, size, quote.wires, runtime_);
  for (auto& candidate : quote.candidates) {
    if (reach.out.empty() || !candidate.form) continue;
    candidate.form->ramp = ramp(*candidate.algorithm, group, size);
    candidate.shared = shared(*candidate.algorithm, group, size);
    candidate.seconds = std::max(candidate.seconds + candidate.form->ramp, candidate.shared);
  }
  return quote;
}

std::string CommunicationModel::why(const GroupShape& group, const collective::Choice& choice) const {
  if (!choice.algorithm) return {};
  const auto& reach = machine_.reach(group);
  auto text = choice.algorithm->why ? choice.algorithm->why({group.ranks, static_cast<std::uint32_t>(reach.in_domain)})
                                    : std::string("the fastest");
  if (reach.nics < reach.nics_of) text += fmt::format(", over {} of {} NICs of a node", reach.nics, reach.nics_of);
  const auto narrow = std::min_element(reach.out.begin(), reach.out.end(),
                                       [](const auto& a, const auto& b) { return a.rate < b.rate; });
  if (reach.out.size() > 1 && narrow != reach.out.begin()) text += fmt::format(", limited from {}", narrow->name);
  return text;
}

std::string CommunicationModel::where(const GroupShape& group) const {
  const auto& reach = machine_.reach(group);
  if (reach.out.empty()) return " in a node";
  return fmt::format(" on {} nodes", reach.ranks / reach.in_domain);
}

std::optional<double> CommunicationModel::extrapolates() const {
  if (!reference_) return std::nullopt;
  const double ratio = machine_.spec().nvlink.value() / reference_->machine.spec().nvlink.value();
  if (ratio > 2 || ratio < .5) return ratio;
  return std::nullopt;
}

// Each call is a ring of its own over small pieces: its latency grows with the ranks, and it reaches a part of the
// wire's rate.
double CommunicationModel::tensor_by_tensor(const graph::Collective& work, double latency, double efficiency) const {
  const auto& reach = machine_.reach(work.group);
  const double n = work.group.ranks;
  const auto rate = reach.out.empty() ? reach.port : reach.out.front().rate;
  need_link(machine_.spec(), rate);
  return double(work.tensors) * latency * (n - 1) +
         double(work.size.count()) * (n - 1) / n / (rate.value() * efficiency);
}

// The slower of the path out and the rate at which a kernel copies to a peer, which also feeds the NIC.
double CommunicationModel::on_the_wire(const graph::Message& work) const {
  if (work.size.count() <= 0 || work.from == work.to) return 0;
  const auto& spec = machine_.spec();
  const auto& way = machine_.reach(work.from, work.to);
  const double size = double(work.size.count());
  const auto copies = spec.nvlink_message;
  if (way.leaves_domain) {
    const double out = size / (way.rate.value() * spec.nic_message_efficiency * spec.fabric);
    return copies.value() > 0 ? std::max(out, size / copies.value()) : out;
  }
  if (copies.value() <= 0)
    throw UserError(fmt::format("cluster '{}' has no 'nvlink_message' rate for sends inside a node", spec.name));
  return size / std::min(copies, way.rate).value();
}

// The bytes leave after the latency of the path and the fixed cost of a send; then the receivers of a sharded message
// all-gather it.
double CommunicationModel::message(const graph::Message& work) const {
  const auto& spec = machine_.spec();
  if (work.from == work.to) return to_seconds(spec.message_overhead);  // between ranks that share a GPU
  const auto& way = machine_.reach(work.from, work.to);
  double gather = 0;
  if (work.gathered.count() > 0 && work.gather.ranks > 1) {
    auto rate = spec.nvlink_gather.value() > 0 ? std::min(spec.nvlink_gather, spec.nvlink) : spec.nvlink;
    INVARIANT(rate.value() > 0, "a sharded send has no link to be gathered over");
    for (const auto& boundary : machine_.reach(work.gather).out) rate = std::min(rate, boundary.rate);
    gather = double(work.gathered.count()) * double(work.gather.ranks - 1) / double(work.gather.ranks) / rate.value();
  }
  return double(work.chunks) * to_seconds(way.latency + spec.message_overhead) + on_the_wire(work) + gather;
}

// --- CostModel

collective::Choice CostModel::choose(const graph::Collective& work) const {
  auto choice = communication_.choose(work.group, work.kind, work.size);
  if (work.kind == CollectiveKind::shift && choice.algorithm)
    for (const auto& send : communication_.sends_of_shift(work.group, work.size))
      if (measured(send)) choice.seconds = collective::interpolate(profile_->messages.latency, send.size);
  if (work.tensors > 1 && choice.algorithm)
    choice.seconds =
        communication_.tensor_by_tensor(work, framework_.sharded_tensor_latency, framework_.sharded_tensor_efficiency);
  return choice;
}

double CostModel::collective(const graph::Collective& work) const { return choose(work).seconds / double(work.pieces); }

std::string CostModel::why(const graph::Collective& work) const {
  return work.tensors > 1 ? "one small call for each tensor" : communication_.why(work.group, choose(work));
}

bool CostModel::measured(const graph::Message& work) const {
  return profile_ && profile_->has_messages() && work.gathered.count() == 0 &&
         (work.from == work.to || !communication_.machine().reach(work.from, work.to).leaves_domain);
}

// L of a measured message. If the ranks copy it themselves, that takes o_s of the sender and o_r of the receiver, and
// the wire the rest of L: then a receive ends at max(wait posted + o_r, send posted + L).
double CostModel::message(const graph::Message& work) const {
  if (!measured(work)) return communication_.message(work);
  if (work.size.count() <= 0) return 0;
  const double latency = collective::interpolate(profile_->messages.latency, work.size);
  if (!framework_.native_kernels) return latency;
  return std::max(0., latency - staging_copy({work.size, false}) - staging_copy({work.size, true}));
}

// For a measured message, the part that grows with its size: the smallest measured one is all latency.
double CostModel::on_the_wire(const graph::Message& work) const {
  if (!measured(work)) return communication_.on_the_wire(work);
  auto smallest = work;
  smallest.size = std::min(work.size, profile_->messages.latency.front().size);
  return std::max(0., message(work) - message(smallest));
}

}  // namespace rehearsal::cost
