#include "collective/nccl.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"

namespace rehearsal::collective {
namespace {

template <class Time>
Choice fastest(CollectiveKind kind, Shape shape, const NvLink& links, const Nccl& nccl, Time time) {
  Choice best;
  for (const auto& [name, algorithm] : *nccl.algorithms) {
    if (algorithm.kind != kind || algorithm.point_to_point) continue;
    if (refusal(algorithm, shape, links, nccl) != Refusal::none) continue;
    const double seconds = time(algorithm);
    if (!best.algorithm || seconds < best.seconds) best = {&algorithm, seconds};
  }
  if (!best.algorithm)
    throw UserError(fmt::format("NCCL {} has no {} of {} ranks", show(nccl.version), name(kind), shape.ranks));
  return best;
}

// The wires of one node as NCCL's implementation of an algorithm uses them.
struct Used {
  Wires wires;
  double share, ramp;
  double ramped(double wire) const { return std::sqrt(ramp * wire); }
};
Used used(const Algorithm& algorithm, const Wires& wires, const NvLink& links, const Nccl& nccl) {
  const auto protocol = algorithm.protocol ? algorithm.protocol(links, nccl.fit) : ring_protocol(links, nccl.fit);
  Used own{{}, protocol.share, protocol.ramp};
  own.wires.rate = wires.rate * protocol.share;
  own.wires.fixed = protocol.launch;
  own.wires.latency = wires.latency;
  return own;
}

// T = launch + steps x latency + w + sqrt(ramp w), w = bytes of the busiest port / (rate x share).
double seconds_inside(const Algorithm& algorithm, std::uint32_t ranks, Bytes size, const Used& own) {
  Wires alone;
  alone.rate = own.wires.rate;
  return algorithm.time(ranks, size, own.wires) + own.ramped(algorithm.time(ranks, size, alone));
}

}  // namespace

Refusal refusal(const Algorithm& algorithm, Shape shape, const NvLink& links, const Nccl& nccl) {
  if (!algorithm.nccl_since) return Refusal::not_in_nccl;
  if (*algorithm.nccl_since > nccl.version) return Refusal::too_new;
  return algorithm.applies && !algorithm.applies(shape, links, nccl.version) ? Refusal::not_here : Refusal::none;
}

Choice inside_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Wires& wires, const NvLink& links,
                   const Nccl& nccl) {
  if (ranks <= 1 || size.count() <= 0) return {};
  return fastest(kind, ranks, links, nccl, [&](const Algorithm& algorithm) {
    return seconds_inside(algorithm, ranks, size, used(algorithm, wires, links, nccl));
  });
}

Choice across_nodes(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const NvLink& links,
                    const Nccl& nccl) {
  if (shape.ranks <= 1 || size.count() <= 0) return {};
  return fastest(kind, shape, links, nccl,
                 [&](const Algorithm& algorithm) { return algorithm.time(shape, size, wires); });
}

std::string reason(const Candidate& candidate, const Nccl& nccl) {
  switch (candidate.refusal) {
    case Refusal::none:
      return {};
    case Refusal::not_in_nccl:
      return "not in NCCL";
    case Refusal::too_new:
      return fmt::format("in NCCL since {}, here is {}", show(*candidate.algorithm->nccl_since), show(nccl.version));
    case Refusal::not_here:
      return "needs " + candidate.algorithm->needs;
  }
  return {};
}

std::vector<Candidate> candidates(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const NvLink& links,
                                  const Nccl& nccl) {
  std::vector<Candidate> all;
  for (const auto& [name, algorithm] : *nccl.algorithms) {
    if (algorithm.kind != kind || algorithm.point_to_point) continue;
    auto& candidate = all.emplace_back(Candidate{&algorithm, refusal(algorithm, shape, links, nccl), 0, {}});
    const bool across = shape.nodes() > 1;
    if (algorithm.switches > 0 && links.in_switch <= 0) continue;
    if (across && algorithm.applies && !algorithm.applies(shape, links, kNewestNccl)) continue;
    if (across) {
      candidate.seconds = algorithm.time(shape, size, wires);
      candidate.form = take_apart(algorithm, shape, size, wires);
      continue;
    }
    const auto own = used(algorithm, wires, links, nccl);
    candidate.share = own.share;
    candidate.seconds = seconds_inside(algorithm, shape.ranks, size, own);
    candidate.form = take_apart(algorithm, shape, size, own.wires);
    candidate.form->ramp = own.ramped(candidate.form->inside);
  }
  return all;
}

}  // namespace rehearsal::collective
