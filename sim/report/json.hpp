// Numbers in JSON reports.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/json.hpp"

namespace rehearsal::report {

// Whole numbers as integers: 32, not 32.0.
inline Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return static_cast<std::int64_t>(value);
  return value;
}
inline Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

}  // namespace rehearsal::report
