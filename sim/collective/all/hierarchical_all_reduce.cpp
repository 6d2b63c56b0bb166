#include <fmt/format.h>

#include "collective/registry.hpp"
#include "collective/ring.hpp"

namespace rehearsal::collective {
namespace {

// Part g j + i belongs to GPU i of node j at the end of both reductions: i tells the rail, j the place on its ring.
// `turn` is a ring over `n` participants; `ranks(p, c)` and `part(p, c)` put copy c of it onto ranks and parts.
template <class RankOf, class PartsOf>
void add_ring(std::vector<std::vector<Transfer>>& all, const std::vector<std::vector<Transfer>>& turn,
              std::uint32_t copies, RankOf rank, PartsOf parts) {
  for (const auto& step : turn) {
    auto& out = all.emplace_back();
    for (std::uint32_t copy = 0; copy < copies; ++copy)
      for (const auto& t : step)
        for (const auto part : parts(copy, t.chunk))
          out.push_back({rank(copy, t.from), rank(copy, t.to), part, t.reduce});
  }
}

std::vector<std::vector<Transfer>> three_phases(Shape s) {
  const std::uint32_t g = s.per_node, k = s.nodes();
  const auto in_node = [g](std::uint32_t node, std::uint32_t i) { return node * g + i; };
  const auto on_rail = [g](std::uint32_t rail, std::uint32_t j) { return j * g + rail; };
  const auto of_rail = [g, k](std::uint32_t, std::uint32_t i) {
    std::vector<std::uint32_t> parts;
    for (std::uint32_t j = 0; j < k; ++j) parts.push_back(j * g + i);
    return parts;
  };
  const auto of_node = [g](std::uint32_t rail, std::uint32_t j) { return std::vector<std::uint32_t>{j * g + rail}; };
  std::vector<std::vector<Transfer>> steps;
  add_ring(steps, ring_reduce_scatter_steps(g), k, in_node, of_rail);
  add_ring(steps, ring_reduce_scatter_steps(k), g, on_rail, of_node);
  add_ring(steps, ring_all_gather_steps(k), g, on_rail, of_node);
  add_ring(steps, ring_all_gather_steps(g), k, in_node, of_rail);
  return steps;
}

double around(std::uint32_t n) { return n > 0 ? 2. * (n - 1) / n : 0; }

}  // namespace

void register_hierarchical_all_reduce(Registry& registry) {
  Algorithm rails;
  rails.name = "hierarchical-all-reduce";
  rails.summary =
      "Reduce-scatter in each node, all-reduce over each rail, all-gather in each node, one after the other: a NIC "
      "carries 2(k-1)/k of a g-th of the array among k nodes of g GPUs.";
  rails.kind = CollectiveKind::all_reduce;
  rails.across_nodes = true;
  rails.steps = [](Shape s) { return 2 * (s.per_node - 1) + 2 * (s.nodes() - 1); };
  rails.bytes_sent_per_rank = [](Shape s, Bytes size) {
    return bytes(double(size.count()) * (around(s.per_node) + around(s.nodes()) / s.per_node));
  };
  rails.split = [](Shape s, Bytes size) {
    return Split{double(size.count()) * around(s.per_node), double(size.count()) * around(s.nodes())};
  };
  rails.time = [](Shape s, Bytes size, const Wires& w) {
    if (s.ranks <= 1) return 0.;
    const double in_node = s.per_node > 1 ? around(s.per_node) * seconds_for(size, w.rate) : 0;
    const double rail = s.nodes() > 1 ? around(s.nodes()) / s.per_node * seconds_for(size, w.net_rate) : 0;
    return w.fixed + 2. * (s.per_node - 1) * w.latency + 2. * (s.nodes() - 1) * w.net_latency + in_node + rail;
  };
  rails.schedule = three_phases;
  rails.why = [](Shape s) { return fmt::format("three phases over {} rails", s.per_node); };
  registry.add(std::move(rails));
}

}  // namespace rehearsal::collective
