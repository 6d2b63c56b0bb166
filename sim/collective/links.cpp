#include "collective/links.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.hpp"
#include "collective/registry.hpp"

namespace rehearsal::collective {
namespace {

constexpr std::array<Generation, 4> kGenerations{{
    {2, 150e9, .80, 0, 0, "this NVLink's switches cannot add"},
    {3, 300e9, .80, 0, 0, "this NVLink's switches cannot add"},
    {4, 450e9, .824, .85, 5, "the switch adds from 5 GPUs and 2 MiB on"},
    {5, 900e9, .802, .74, 6, "the switch adds from 6 GPUs and 2 MiB on"},
}};

}  // namespace

const Generation& generation(int number, Bandwidth rate) {
  const auto distance = [&](const Generation& g) { return std::abs(std::log(rate.value() / g.rate)); };
  const Generation* nearest = nullptr;
  for (const auto& g : kGenerations) {
    if (number == g.number) return g;
    if (!nearest || distance(g) < distance(*nearest)) nearest = &g;
  }
  INVARIANT(number == 0 && nearest, fmt::format("there is no NVLink of generation {}", number));
  return *nearest;
}

Choice choose_in_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, const Generation& links) {
  switch (kind) {
    case CollectiveKind::reduce_scatter:
      return {"ring-reduce-scatter", 0, "inside a node NCCL scatters by rings"};
    case CollectiveKind::all_gather:
      return {"ring-all-gather", 0, "inside a node NCCL gathers by rings"};
    case CollectiveKind::all_reduce:
      break;
  }
  const bool nvls = links.in_switch > 0 && ranks >= links.nvls_from && size.count() >= kLeastNvlsBytes;
  return {nvls ? "nvls-all-reduce" : "ring-all-reduce", 0, links.rule};
}

Choice in_node(CollectiveKind kind, std::uint32_t ranks, Bytes size, Bandwidth rate, const Generation& links,
               const Fit& fit) {
  auto choice = choose_in_node(kind, ranks, size, links);
  if (ranks <= 1 || size.count() <= 0) return choice;
  const bool nvls = choice.algorithm == "nvls-all-reduce";
  const auto& algorithm = registry().at(choice.algorithm);
  // Launch and ramp stand apart from the closed form, whose remainder is latency of steps and time on the wire.
  Wires wires;
  wires.rate = rate * (nvls ? links.in_switch * fit.nvls : links.ring * fit.ring);
  const double wire = algorithm.time(ranks, size, wires);
  wires.fixed = nvls ? fit.nvls_launch : fit.launch;
  wires.latency = nvls ? 0 : fit.step;  // its four steps are in the launch
  choice.seconds = algorithm.time(ranks, size, wires) + std::sqrt((nvls ? fit.nvls_ramp : fit.ramp) * wire);
  return choice;
}

}  // namespace rehearsal::collective
