// exp in fp32 without a library call: compilers vectorise it, and its bytes do not depend on the instructions that a
// library selects on the machine. Within 2 ulp; 0 below -104, infinite above 88.73, NaN for NaN.
//
// exp(x) = 2^k exp(r) with k = round(x / ln 2), |r| <= ln(2) / 2; the polynomial is that of Cephes' expf (Moshier
// 1989).
#pragma once
#include <bit>
#include <cstdint>

namespace rehearsal::cpu {

[[gnu::always_inline]] inline float exponential(float x) {
  // Comparisons that preserve a NaN.
  x = x < -104.f ? -104.f : x;
  x = x > 89.f ? 89.f : x;
  constexpr float kRound = 12582912.f;  // 1.5 x 2^23: adding it leaves the integer in the last bits
  const float shifted = x * 1.44269504088896341f + kRound;
  const std::int32_t k = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float whole = shifted - kRound;
  const float r = x - whole * 0.693359375f - whole * -2.12194440e-4f;  // ln 2 in two parts: the first product is exact
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  // 2^k as two factors, each a normal number, although k ranges from -150 to 128.
  const std::int32_t half = k >> 1;
  const auto power = [](std::int32_t e) { return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23); };
  return p * power(half) * power(k - half);
}

}  // namespace rehearsal::cpu
