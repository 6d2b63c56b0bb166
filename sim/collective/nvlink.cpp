#include "collective/nvlink.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.hpp"
#include "collective/collective.hpp"

namespace rehearsal::collective {
namespace {

constexpr std::array<NvLink, 4> kGenerations{
    {{2, 150e9, .80, 0, 0}, {3, 300e9, .80, 0, 0}, {4, 450e9, .824, .85, 5}, {5, 900e9, .802, .74, 6}}};

}  // namespace

const NvLink& nvlink(int generation, Bandwidth rate) {
  const auto distance = [&](const NvLink& g) { return std::abs(std::log(rate.value() / g.rate)); };
  const NvLink* nearest = nullptr;
  for (const auto& g : kGenerations) {
    if (generation == g.generation) return g;
    if (!nearest || distance(g) < distance(*nearest)) nearest = &g;
  }
  INVARIANT(generation == 0 && nearest, fmt::format("there is no NVLink of generation {}", generation));
  return *nearest;
}

Protocol ring_protocol(const NvLink& links, const Fit& fit) { return {fit.launch, links.ring * fit.ring, fit.ramp}; }

}  // namespace rehearsal::collective
