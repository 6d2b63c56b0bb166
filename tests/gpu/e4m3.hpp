// fp8 of 4 bits of exponent (bias 7) and 3 of mantissa, without infinities (arXiv 2209.05433, table 1).
#pragma once
#include <cmath>
#include <cstdint>

namespace rehearsal::test {

inline float from_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return float(bits & 0x80 ? -size : size);
}

}  // namespace rehearsal::test
