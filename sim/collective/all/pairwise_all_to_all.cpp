#include <fmt/format.h>

#include <algorithm>

#include "collective/pieces.hpp"
#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {
namespace {

// In step k rank r sends the part meant for rank r + k.
std::vector<std::vector<Transfer>> shifts(std::uint32_t n) {
  std::vector<std::vector<Transfer>> steps;
  for (std::uint32_t k = 1; k < n; ++k) {
    auto& step = steps.emplace_back();
    for (std::uint32_t r = 0; r < n; ++r) step.push_back({r, (r + k) % n, (r + k) % n, false});
  }
  return steps;
}

}  // namespace

void register_pairwise_all_to_all(Registry& registry) {
  Algorithm pairs;
  pairs.name = "pairwise-all-to-all";
  pairs.summary =
      "Each rank sends an n-th of its array to every other; NCCL starts all sends at once, so each border between "
      "domains takes what crosses it. This program's own steps follow each other.";
  pairs.kind = CollectiveKind::all_to_all;
  pairs.steps = [](Shape s) { return s.ranks - 1; };
  pairs.bytes_sent_per_rank = [](Shape s, Bytes size) { return ring_bytes(s.ranks, size, 1); };
  pairs.split = [](Shape s, Bytes size) {
    const double part = double(size.count()) / s.ranks;
    return Split{part * (s.per_node - 1), part * s.per_node * (s.ranks - s.per_node)};
  };
  pairs.time = [](Shape s, Bytes size, const Wires& w) {
    if (s.ranks <= 1) return 0.;
    const double part = 1. / s.ranks;
    if (s.nodes() <= 1) return w.fixed + (s.ranks - 1) * (w.latency + part * seconds_for(size, w.rate));
    double busiest = (s.per_node - 1) * part * seconds_for(size, w.rate.value() > 0 ? w.rate : w.net_rate);
    for (const auto& c : w.crossings)
      busiest = std::max(busiest, double(c.members) * (s.ranks - c.members) * part * seconds_for(size, c.rate));
    return w.fixed + (w.nccl_protocols ? 1 : s.ranks - 1) * w.net_latency + busiest;
  };
  pairs.schedule = [](Shape s) { return shifts(s.ranks); };
  pairs.pieces = [](Shape s, Bytes size, double) { return own_pieces(double(size.count()) / s.ranks); };
  pairs.why = [](Shape s) { return fmt::format("{} sends a rank", s.ranks - 1); };
  registry.add(std::move(pairs));
}

}  // namespace rehearsal::collective
