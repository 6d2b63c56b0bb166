// Vectors of floats without intrinsics (the vector extension of GCC and Clang), for kernels compiled once per
// instruction set. Every variant rounds in the same order, so the widest one available may be chosen at run time with
// the same bytes: sums run over kLanes interleaved lanes, whatever the register width, and no product is fused with its
// sum.
#pragma once
#include <cstdint>
#include <cstring>

namespace rehearsal::cpu {

enum class InstructionSet : std::uint8_t { portable, avx2 };

inline InstructionSet widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return InstructionSet::avx2;
#endif
  return InstructionSet::portable;
}

#if defined(__x86_64__)
#define REHEARSAL_AVX2 __attribute__((target("avx2")))
#endif
// A body is inlined into its variants, and so compiled for each of their instruction sets.
#define REHEARSAL_BODY [[gnu::always_inline]] inline

using Vector4 = float __attribute__((vector_size(16)));
using Vector8 = float __attribute__((vector_size(32)));

// Loads into a variable: returning a vector from a function has a different ABI per instruction set.
template <class V>
REHEARSAL_BODY void load(V& into, const float* from) {
  std::memcpy(&into, from, sizeof(V));
}
template <class V>
REHEARSAL_BODY void store(float* into, const V& from) {
  std::memcpy(into, &from, sizeof(V));
}

inline constexpr std::int64_t kLanes = 16;

// Sum of a[i] b[i] in kLanes lanes that are folded in halves; the remainder is added last.
template <class V>
REHEARSAL_BODY float dot(const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t kWidth = sizeof(V) / sizeof(float), kParts = kLanes / kWidth;
  V lanes[kParts] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t part = 0; part < kParts; ++part) {
      V x, y;
      load(x, a + i + part * kWidth), load(y, b + i + part * kWidth);
      lanes[part] += x * y;
    }
  float sums[kLanes];
  std::memcpy(sums, lanes, sizeof(sums));
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  float rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return sums[0] + rest;
}

// y += factor x
template <class V>
REHEARSAL_BODY void add_scaled(float factor, const float* x, float* y, std::int64_t n) {
  constexpr std::int64_t kWidth = sizeof(V) / sizeof(float);
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    V from, to;
    load(from, x + i), load(to, y + i);
    to += factor * from;
    store(y + i, to);
  }
  for (; i < n; ++i) y[i] += factor * x[i];
}

}  // namespace rehearsal::cpu
