// What each participant holds while a collective runs, step after step: for pictures.
#pragma once
#include <cstdint>
#include <vector>

#include "collective/collective.hpp"

namespace rehearsal::collective {

// The number of contributions in each part of each participant's array, before the first step and after each; a part is
// complete with `full` of them. Empty for an all-to-all, whose parts are different ones at the end.
struct Holdings {
  std::uint32_t full = 1;
  std::vector<std::vector<std::vector<std::uint32_t>>> after;  // [step][participant][part]
};
Holdings holdings(const Algorithm& algorithm, Shape shape, const std::vector<std::vector<Transfer>>& steps);

inline std::uint32_t parts_of(const Algorithm& algorithm, Shape shape) {
  return algorithm.parts > 0 ? algorithm.parts : shape.ranks;
}

}  // namespace rehearsal::collective
