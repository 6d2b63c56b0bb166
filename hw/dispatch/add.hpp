// The sum of two arrays of fp32 or of bf16: added as floats, rounded once per addition. Commutative to the bit.
#pragma once
#include <cstddef>

#include "base/kernels.hpp"

namespace rehearsal::dispatch {

// `to` may be `a` or `b`; `bytes` hold whole elements.
void add(Precision precision, const std::byte* a, const std::byte* b, std::byte* to, std::size_t bytes);

}  // namespace rehearsal::dispatch
