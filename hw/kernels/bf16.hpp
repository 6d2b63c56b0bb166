// bfloat16 as a storage type, on the host and on a GPU alike (no header of CUDA). Arithmetic is in fp32; a result is
// rounded once, to the nearest, so its relative error is at most 2^-8 (8 significant bits).
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/bf16.hpp"
#include "kernels/device.hpp"

namespace rehearsal::kernels {

struct BFloat16 {
  std::uint16_t bits;
};
static_assert(sizeof(BFloat16) == 2);

REHEARSAL_BOTH float widened(float x) { return x; }
REHEARSAL_BOTH float widened(BFloat16 x) { return from_bf16(x.bits); }

// x as stored in T.
template <class T>
REHEARSAL_BOTH T stored(float x) {
  if constexpr (std::is_same_v<T, float>)
    return x;
  else
    return {to_bf16(x)};
}

}  // namespace rehearsal::kernels
