#include "cost/one_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "collective/holdings.hpp"

namespace rehearsal::cost {
namespace {

using collective::Transfer;

constexpr std::array kKinds{CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                            CollectiveKind::all_to_all, CollectiveKind::broadcast,  CollectiveKind::shift};
constexpr double kLongest = 90 * 86400.;  // s; picoseconds in 64 bits count 106 days

// Bytes on links, both directions of a cable apart.
class Loads {
 public:
  explicit Loads(const cluster::Machine& machine) : machine_(machine) {}
  void add(const cluster::Hop& hop, double bytes) {
    auto& load = loads_[{hop.from, hop.to}];
    load = {hop.from, hop.to, hop.link.rate, load.bytes + bytes};
  }
  // Spreads bytes over all links from a GPU to others of its group in proportion to their rates, as rings of different
  // orders use them; over its routes if it has no such links.
  void spread(const GroupShape& group, std::int64_t from, std::int64_t to, double bytes) {
    const auto members = machine_.reach(group).in_domain, first = from / members * members;
    const auto gpu = [&](std::int64_t rank) { return machine_.gpu(rank * group.stride); };
    double all = 0;
    for (std::int64_t other = first; other < first + members; ++other)
      if (other != from) all += machine_.link(gpu(from), gpu(other)).rate.value();
    if (all <= 0) return send(from * group.stride, to * group.stride, bytes);
    for (std::int64_t other = first; other < first + members; ++other) {
      if (other == from) continue;
      const auto link = machine_.link(gpu(from), gpu(other));
      if (link.rate.value() > 0) add({gpu(from), gpu(other), link}, bytes * link.rate.value() / all);
    }
  }
  void send(std::int64_t from, std::int64_t to, double bytes, std::int64_t stripes = 1) {
    for (std::int64_t stripe = 0; stripe < stripes; ++stripe)
      for (const auto& hop : machine_.route(from, to, stripe)) add(hop, bytes / double(stripes));
  }
  std::vector<LinkLoad> all() const {
    std::vector<LinkLoad> links;
    for (const auto& [ends, load] : loads_) links.push_back(load);
    return links;
  }

 private:
  const cluster::Machine& machine_;
  std::map<std::pair<cluster::Device, cluster::Device>, LinkLoad> loads_;
};

// Traffic from one domain to another is distributed over all its members there, each over the NICs beside it, as in
// prices: NCCL runs as many rings or trees at a time, and each leaves and enters by another NIC.
std::vector<LinkLoad> loads(const cluster::Machine& machine, const OneCollective& one) {
  Loads loads(machine);
  const auto ranks = one.group.ranks;
  const std::int64_t stride = one.group.stride, members = one.quote.shape.per_node;
  const auto& reach = machine.reach(one.group);
  const auto out = reach.senders;
  const bool few = out < members;                                        // ClusterSpec::nics_per_group
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> sent;  // parts, from rank to rank
  for (const auto& step : one.steps)
    for (const auto& t : step) ++sent[{t.from, t.to}];
  // Transfers that ignore nodes cross more often than those of an algorithm with several GPUs per node
  // (Algorithm::split).
  double out_of_domain = 0;
  for (const auto& [ends, parts] : sent)
    if (ends.first < ranks && ends.second < ranks && ends.first / members != ends.second / members)
      out_of_domain += double(parts) * one.part_bytes();
  const auto split = collective::split(*one.algorithm, one.quote.shape, one.question.size);
  const double left = out_of_domain > 0 ? split.out * one.quote.shape.nodes() / out_of_domain : 1;
  const auto kind = one.question.kind;
  const bool rings = kind != CollectiveKind::all_to_all;
  const bool on_links = rings && kind != CollectiveKind::shift && machine.inside().port && !machine.inside().reduces;
  const auto inside = [&](std::int64_t from, std::int64_t to, double bytes) {
    if (on_links)
      loads.spread(one.group, from, to, bytes);
    else
      loads.send(from * stride, to * stride, bytes);
  };
  std::map<std::pair<std::int64_t, std::int64_t>, double> across;  // bytes, from domain to domain
  for (const auto& [ends, parts] : sent) {
    const auto [from, to] = ends;
    const bool crosses = from < ranks && to < ranks && from / members != to / members;
    const double bytes = double(parts) * one.part_bytes() * (crosses ? left : 1);
    if (to >= ranks) {  // a switch is the first device of every route inside
      loads.add(machine.route(from * stride, (from + 1) % ranks * stride).front(), bytes);
    } else if (from >= ranks) {
      loads.add(machine.route((to + 1) % ranks * stride, to * stride).back(), bytes);
    } else if (!crosses && !(rings && members < ranks)) {
      inside(from, to, bytes);
    } else if (crosses) {
      across[{from / members, to / members}] += bytes;
    }
  }
  // Rings through several domains enter and leave each by different members, so all send equally to their next.
  const auto* within = one.algorithm->any_inside ? one.quote.inside.algorithm : nullptr;
  const auto neighbours = static_cast<std::uint32_t>(members);
  const double each =
      within ? double(within->bytes_sent_per_rank(neighbours, one.question.size).count()) : split.inside;
  if (rings && members > 1 && members < ranks)
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      inside(rank, rank / members * members + (rank + 1) % members, each);
  for (const auto& [ends, bytes] : across)
    for (std::int64_t i = 0; i < out; ++i)
      loads.send((ends.first * members + i) * stride, (ends.second * members + i) * stride, bytes / double(out),
                 few ? 1 : machine.stripes());
  return loads.all();
}

}  // namespace

CollectiveQuestion named_collective(const std::string& name) {
  CollectiveQuestion question;
  std::vector<std::string> names;
  for (const auto kind : kKinds) {
    names.emplace_back(rehearsal::name(kind));
    if (name == names.back()) {
      question.kind = kind;
      return question;
    }
  }
  for (const auto& [known, algorithm] : collective::registry()) {
    if (algorithm.point_to_point) {
      if (name == known) throw UserError(fmt::format("'{}' is one message and no collective", name));
      continue;
    }
    names.push_back(known);
    if (name != known) continue;
    question.kind = algorithm.kind, question.algorithm = &algorithm;
    return question;
  }
  throw UserError(fmt::format("unknown collective '{}'{}", name, suggestion(name, names)));
}

GroupShape place(const CollectiveQuestion& question, cluster::ClusterSpec& spec, bool sized) {
  const std::int64_t ranks = question.ranks, node = spec.gpus_per_node;
  const std::int64_t each = question.per_node.value_or(std::min(ranks, node));
  if (each > node)
    throw UserError(fmt::format("{} ranks per node are more than the {} GPUs of a node of {}", each, node, spec.name));
  if (each > ranks) throw UserError(fmt::format("{} ranks per node are more than the {} ranks there are", each, ranks));
  const auto fits = [&] {
    std::int64_t best = std::gcd(ranks, node);
    return fmt::format("; --per-node {} would fit", best);
  };
  if (ranks % each != 0)
    throw UserError(fmt::format("{} ranks are no whole number of nodes with {} each{}", ranks, each, fits()));
  const std::int64_t nodes = ranks / each;
  if (nodes > 1 && node % each != 0)
    throw UserError(
        fmt::format("{} ranks per node do not divide the {} GPUs of a node of {}{}", each, node, spec.name, fits()));
  if (sized && nodes > spec.nodes)
    throw UserError(
        fmt::format("{} ranks with {} per node need {} nodes; the cluster has {}", ranks, each, nodes, spec.nodes));
  if (!sized) spec.nodes = nodes;
  const auto stride = nodes > 1 ? std::uint32_t(node / each) : 1;
  return {question.ranks, stride};
}

double OneCollective::part_bytes() const {
  return double(question.size.count()) / collective::parts_of(*algorithm, quote.shape);
}

double OneCollective::bus_factor() const {
  const double n = question.ranks;
  switch (question.kind) {
    case CollectiveKind::all_reduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return (n - 1) / n;
    case CollectiveKind::broadcast:
    case CollectiveKind::shift:
      return 1;
  }
  return 1;
}

std::vector<LinkKind> OneCollective::link_kinds() const {
  std::vector<LinkKind> kinds;
  for (const auto& link : links) {
    auto at = std::find_if(kinds.begin(), kinds.end(), [&](const LinkKind& kind) {
      return kind.from == link.from.kind && kind.to == link.to.kind && kind.rate == link.rate;
    });
    if (at == kinds.end()) at = kinds.insert(kinds.end(), {link.from.kind, link.to.kind, link.rate});
    ++at->links, at->total += link.bytes, at->most = std::max(at->most, link.bytes);
  }
  return kinds;
}

OneCollective step_by_step(const CommunicationModel& model, const CollectiveQuestion& question,
                           const GroupShape& group) {
  const auto& machine = model.machine();
  const auto& reach = machine.reach(group);
  if (reach.ranks % reach.in_domain != 0)
    throw UserError(
        fmt::format("{} ranks are no whole number of domains: NVLink joins {} of them", reach.ranks, reach.in_domain));
  OneCollective one;
  one.question = question, one.group = group;
  one.per_node = std::min<std::int64_t>(question.ranks, machine.spec().gpus_per_node / group.stride);
  one.quote = model.quote(group, question.kind, question.size);
  one.algorithm = question.algorithm ? question.algorithm : one.quote.choice.algorithm;
  one.chosen = one.algorithm == one.quote.choice.algorithm;
  const auto found = std::find_if(one.quote.candidates.begin(), one.quote.candidates.end(),
                                  [&](const auto& candidate) { return candidate.algorithm == one.algorithm; });
  INVARIANT(found != one.quote.candidates.end(), "an algorithm is no candidate of its kind");
  if (!found->form)
    throw UserError(fmt::format("{} cannot run here: {}", one.algorithm->name,
                                collective::reason(*found, one.quote.shape, model.runtime())));
  one.form = *found->form;
  one.share = found->share, one.shared = found->shared;
  const bool across = !reach.out.empty();
  // Curves were measured with the algorithm that the library chose.
  if (one.chosen || across) one.correction = one.quote.correction;
  one.seconds = one.chosen ? one.quote.choice.seconds : found->seconds;
  if (!(one.seconds < kLongest)) throw UserError("the collective takes more than 90 days; give a smaller --size");
  one.why = model.why(group, {one.algorithm, one.seconds});
  if (question.ranks > kMostListed) return one;
  one.steps = one.algorithm->schedule(one.quote.shape);
  one.links = loads(machine, one);
  return one;
}

}  // namespace rehearsal::cost
