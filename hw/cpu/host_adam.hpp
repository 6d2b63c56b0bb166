// AdamW with states in host memory and all cores sharing a step (ZeRO-Offload, arXiv 2101.06840, section 5.2): the
// arithmetic of `adamw` in functions.hpp to the last bit, multi-threaded and vectorised.
#pragma once
#include <cstdint>

#include "backend/backend.hpp"

namespace rehearsal::cpu {

// Arrays of `elements` each. fp32 states: the gradient, which is only read; the parameters; both moments.
struct HostAdam {
  std::int64_t elements = 0, step = 0;  // steps taken before this one
  const float* gradient = nullptr;
  float *parameters = nullptr, *m = nullptr, *v = nullptr;
  std::uint16_t* stored = nullptr;  // the parameters rounded to bf16; null when only fp32 is stored
};
// Bytes that a step reads and writes per parameter: 4 x 4 read, 3 x 4 written, and 2 if stored in bf16.
constexpr std::int64_t host_adam_bytes(bool stored) { return stored ? 30 : 28; }

void host_adam(const HostAdam& call, const backend::TrainingData& learning, unsigned threads);

}  // namespace rehearsal::cpu
