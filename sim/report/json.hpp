// Numbers in JSON reports. Only .cpp files of the report room and the commands include this (it pulls in the JSON
// library).
#pragma once
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace rehearsal::report {

using Json = nlohmann::ordered_json;

// Whole numbers as integers: 32, not 32.0.
inline Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return static_cast<std::int64_t>(value);
  return value;
}
inline Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

template <class T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace rehearsal::report
