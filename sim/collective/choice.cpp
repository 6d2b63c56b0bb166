#include "collective/choice.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"

namespace rehearsal::collective {
namespace {

// The version since which the library runs it among these ranks; none: it never does.
std::optional<Version> since(const Algorithm& algorithm, Shape shape, const cluster::Library& library) {
  const auto found = library.algorithms.find(algorithm.name);
  if (found == library.algorithms.end()) return std::nullopt;
  const auto& [ever, on_two_nodes] = found->second;
  return shape.nodes() == 2 ? std::max(ever, on_two_nodes) : ever;
}

template <class Time>
Choice fastest(CollectiveKind kind, Shape shape, const Runtime& runtime, Time time) {
  Choice best;
  for (const auto& [name, algorithm] : *runtime.algorithms) {
    if (algorithm.kind != kind || algorithm.point_to_point) continue;
    if (refusal(algorithm, shape, runtime) != Refusal::none) continue;
    const double seconds = time(algorithm);
    if (!best.algorithm || seconds < best.seconds) best = {&algorithm, seconds};
  }
  if (!best.algorithm)
    throw UserError(fmt::format("{} {} has no {} of {} ranks", runtime.library.title, show(runtime.version), name(kind),
                                shape.ranks));
  return best;
}

// The wires of one node as a library's implementation of an algorithm uses them.
struct Used {
  Wires wires;
  double share, ramp;
  double ramped(double wire) const { return std::sqrt(ramp * wire); }
};
Used used(const Algorithm& algorithm, const Wires& wires, const Runtime& runtime) {
  const auto protocol = algorithm.protocol ? algorithm.protocol(runtime.links) : ring_protocol(runtime.links);
  Used own{{}, protocol.share, protocol.ramp};
  own.wires.rate = wires.rate * protocol.share;
  own.wires.fixed = protocol.launch;
  own.wires.latency = wires.latency;
  own.wires.nccl_protocols = runtime.library.nccl_protocols;
  return own;
}

// T = launch + steps x latency + w + sqrt(ramp w), w = bytes of the busiest port / (rate x share).
double seconds_inside(const Algorithm& algorithm, std::uint32_t ranks, Bytes size, const Used& own) {
  return algorithm.time(ranks, size, own.wires) + own.ramped(on_the_wire(algorithm, ranks, size, own.wires.rate));
}

}  // namespace

double on_the_wire(const Algorithm& algorithm, std::uint32_t ranks, Bytes size, Bandwidth port) {
  Wires alone;
  alone.rate = port;
  return algorithm.time(ranks, size, alone);
}

Refusal refusal(const Algorithm& algorithm, Shape shape, const Runtime& runtime) {
  const auto first = since(algorithm, shape, runtime.library);
  if (!first) return Refusal::not_in_library;
  if (algorithm.applies && !algorithm.applies(shape, runtime.links)) return Refusal::not_here;
  return *first > runtime.version ? Refusal::too_new : Refusal::none;
}

Choice inside_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Wires& wires, const Runtime& runtime) {
  if (ranks <= 1 || size.count() <= 0) return {};
  return fastest(kind, ranks, runtime, [&](const Algorithm& algorithm) {
    return seconds_inside(algorithm, ranks, size, used(algorithm, wires, runtime));
  });
}

Choice across_nodes(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const Runtime& runtime,
                    const Priced& priced) {
  if (shape.ranks <= 1 || size.count() <= 0) return {};
  return fastest(kind, shape, runtime, [&](const Algorithm& algorithm) {
    const double seconds = algorithm.time(shape, size, wires);
    return priced ? priced(algorithm, seconds) : seconds;
  });
}

std::string reason(const Candidate& candidate, Shape shape, const Runtime& runtime) {
  switch (candidate.refusal) {
    case Refusal::none:
      return {};
    case Refusal::not_in_library:
      return "not in " + runtime.library.title;
    case Refusal::too_new:
      return fmt::format("in {} since {}{}, here is {}", runtime.library.title,
                         show(*since(*candidate.algorithm, shape, runtime.library)),
                         shape.nodes() == 2 ? " on two nodes" : "", show(runtime.version));
    case Refusal::not_here:
      return "needs " + candidate.algorithm->needs;
  }
  return {};
}

std::vector<Candidate> candidates(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires,
                                  const Runtime& runtime) {
  std::vector<Candidate> all;
  for (const auto& [name, algorithm] : *runtime.algorithms) {
    if (algorithm.kind != kind || algorithm.point_to_point) continue;
    auto& candidate = all.emplace_back(Candidate{&algorithm, refusal(algorithm, shape, runtime), 0, {}});
    const bool across = shape.nodes() > 1;
    if (algorithm.switches > 0 && runtime.links.switch_share <= 0) continue;
    if (across && algorithm.applies && !algorithm.applies(shape, runtime.links)) continue;
    if (across) {
      candidate.seconds = algorithm.time(shape, size, wires);
      candidate.form = take_apart(algorithm, shape, size, wires);
      continue;
    }
    const auto own = used(algorithm, wires, runtime);
    candidate.share = own.share;
    candidate.seconds = seconds_inside(algorithm, shape.ranks, size, own);
    candidate.form = take_apart(algorithm, shape, size, own.wires);
    candidate.form->ramp = own.ramped(candidate.form->inside);
  }
  return all;
}

}  // namespace rehearsal::collective
