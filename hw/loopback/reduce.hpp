// Collectives on the buffers of one process.
#pragma once
#include <span>
#include <vector>

#include "base/kernels.hpp"

namespace rehearsal::loopback {

// `in` and `out` of every member, in the order of the members, as Transport::join describes them; in place is allowed
// where NCCL allows it. Sums are taken in the order of the members, so every member gets the same bits. Nothing happens
// when all spans are empty. Throws InternalError when the lengths do not fit together.
void combine(CollectiveKind kind, std::span<const std::span<const float>> in, std::span<const std::span<float>> out);

}  // namespace rehearsal::loopback
