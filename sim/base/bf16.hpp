// bfloat16 on the host: the upper half of a float. Conversion rounds to the nearest, ties to even; a NaN stays one.
#pragma once
#include <bit>
#include <cstdint>

namespace rehearsal {

constexpr float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);  // quiet
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace rehearsal
