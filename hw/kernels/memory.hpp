// Reads and writes N neighbouring elements of memory at a time, as fp32 numbers whatever their storage type. N > 1 is
// one access of up to 16 bytes on a GPU (or two); the address must then be a multiple of min(16, N sizeof(T)). Whether
// the operands allow that is decided before the launch (`wide`): they are only guaranteed to be aligned to their
// elements.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/error.hpp"
#include "kernels/bf16.hpp"

namespace rehearsal::kernels {

template <int N>
struct Floats {
  float v[N];
  REHEARSAL_DEVICE float& operator[](int i) { return v[i]; }
  REHEARSAL_DEVICE const float& operator[](int i) const { return v[i]; }
};

// Number of elements of T in 16 bytes.
template <class T>
inline constexpr int kWide = int(16 / sizeof(T));

#if !defined(__CUDACC__)
// The host reads from any address; a GPU fails on a misaligned one.
template <int kWords>
void check_alignment(const void* at) {
  constexpr std::uintptr_t kBytes = kWords < 4 ? 4 * kWords : 16;
  INVARIANT(reinterpret_cast<std::uintptr_t>(at) % kBytes == 0, "vectors are read and written at their alignment");
}
#endif

template <int kWords>
REHEARSAL_DEVICE void read_words(std::uint32_t* words, const void* from) {
#if defined(__CUDACC__)
  if constexpr (kWords == 1) {
    words[0] = *static_cast<const std::uint32_t*>(from);
  } else if constexpr (kWords == 2) {
    const uint2 raw = *static_cast<const uint2*>(from);
    words[0] = raw.x, words[1] = raw.y;
  } else {
    REHEARSAL_UNROLL
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 raw = static_cast<const uint4*>(from)[i];
      words[4 * i] = raw.x, words[4 * i + 1] = raw.y, words[4 * i + 2] = raw.z, words[4 * i + 3] = raw.w;
    }
  }
#else
  check_alignment<kWords>(from);
  std::memcpy(words, from, kWords * sizeof(std::uint32_t));
#endif
}

template <int kWords>
REHEARSAL_DEVICE void write_words(void* to, const std::uint32_t* words) {
#if defined(__CUDACC__)
  if constexpr (kWords == 1) {
    *static_cast<std::uint32_t*>(to) = words[0];
  } else if constexpr (kWords == 2) {
    *static_cast<uint2*>(to) = uint2{words[0], words[1]};
  } else {
    REHEARSAL_UNROLL
    for (int i = 0; i < kWords / 4; ++i)
      static_cast<uint4*>(to)[i] = uint4{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  }
#else
  check_alignment<kWords>(to);
  std::memcpy(to, words, kWords * sizeof(std::uint32_t));
#endif
}

template <int N, class T>
REHEARSAL_DEVICE Floats<N> load(const T* from) {
  Floats<N> x;
  if constexpr (N == 1) {
    x[0] = widened(*from);
  } else {
    std::uint32_t words[N * sizeof(T) / 4];
    read_words<int(N * sizeof(T) / 4)>(words, from);
    REHEARSAL_UNROLL
    for (int i = 0; i < N; ++i) {
      if constexpr (std::is_same_v<T, float>)
        x[i] = std::bit_cast<float>(words[i]);
      else  // little-endian: the lower half is the first element
        x[i] = std::bit_cast<float>(i % 2 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16);
    }
  }
  return x;
}

template <int N, class T>
REHEARSAL_DEVICE void store(T* to, const Floats<N>& x) {
  if constexpr (N == 1) {
    *to = stored<T>(x[0]);
  } else {
    std::uint32_t words[N * sizeof(T) / 4];
    REHEARSAL_UNROLL
    for (int i = 0; i < N; ++i) {
      if constexpr (std::is_same_v<T, float>)
        words[i] = std::bit_cast<std::uint32_t>(x[i]);
      else if (i % 2 == 0)
        words[i / 2] = stored<T>(x[i]).bits;
      else
        words[i / 2] |= std::uint32_t(stored<T>(x[i]).bits) << 16;
    }
    write_words<int(N * sizeof(T) / 4)>(to, words);
  }
}

// i % n and i / n with 0 <= i, 0 < n. A GPU divides 64-bit numbers in software, several times slower than 32-bit ones.
REHEARSAL_DEVICE std::int64_t remainder(std::int64_t i, std::int64_t n) {
  if ((i | n) >> 32 == 0) return std::int64_t(std::uint32_t(i) % std::uint32_t(n));
  return i % n;
}
REHEARSAL_DEVICE std::int64_t quotient(std::int64_t i, std::int64_t n) {
  if ((i | n) >> 32 == 0) return std::int64_t(std::uint32_t(i) / std::uint32_t(n));
  return i / n;
}

// Whether these may be read 16 bytes at a time.
template <class... Pointers>
bool aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) | ...) & 15) == 0;
}

// Calls body(width, i) for the elements i = first, first + step, ... below n; with `wide` in runs of kWidth elements, i
// being the first of `width`. width is a compile-time constant (an integral_constant).
template <int kWidth, class Body>
REHEARSAL_DEVICE void stride(std::int64_t first, std::int64_t step, std::int64_t n, bool wide, const Body& body) {
  std::int64_t done = 0;
  if (wide) {
    done = n / kWidth * kWidth;
    for (std::int64_t i = first * kWidth; i < done; i += step * kWidth) body(std::integral_constant<int, kWidth>{}, i);
  }
  for (std::int64_t i = done + first; i < n; i += step) body(std::integral_constant<int, 1>{}, i);
}

}  // namespace rehearsal::kernels
