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
    if (algorithm.nccl_since == kNoNccl || algorithm.nccl_since > nccl.version) continue;
    if (algorithm.applies && !algorithm.applies(shape, links)) continue;
    const double seconds = time(algorithm);
    if (!best.algorithm || seconds < best.seconds) best = {&algorithm, seconds};
  }
  if (!best.algorithm)
    throw UserError(fmt::format("NCCL {}.{} has no {} of {} ranks", nccl.version / 100, nccl.version % 100, name(kind),
                                shape.ranks));
  return best;
}

}  // namespace

// T = launch + steps x latency + w + sqrt(ramp w), w = bytes of the busiest port / (rate x share).
Choice inside_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Wires& wires, const NvLink& links,
                   const Nccl& nccl) {
  if (ranks <= 1 || size.count() <= 0) return {};
  return fastest(kind, ranks, links, nccl, [&](const Algorithm& algorithm) {
    const auto protocol = algorithm.protocol ? algorithm.protocol(links, nccl.fit) : ring_protocol(links, nccl.fit);
    Wires own;
    own.rate = wires.rate * protocol.share;
    const double wire = algorithm.time(ranks, size, own);
    own.fixed = protocol.launch;
    own.latency = wires.latency;
    return algorithm.time(ranks, size, own) + std::sqrt(protocol.ramp * wire);
  });
}

Choice across_nodes(CollectiveKind kind, Shape shape, Bytes size, const Wires& wires, const NvLink& links,
                    const Nccl& nccl) {
  if (shape.ranks <= 1 || size.count() <= 0) return {};
  return fastest(kind, shape, links, nccl,
                 [&](const Algorithm& algorithm) { return algorithm.time(shape, size, wires); });
}

}  // namespace rehearsal::collective
