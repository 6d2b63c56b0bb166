// Collectives on the buffers of one process.
#pragma once
#include <cstddef>
#include <span>

#include "base/kernels.hpp"

namespace rehearsal::loopback {

// `in` and `out` of every member, in the order of the members, as in Transport::join; in place is allowed where NCCL
// allows it. Sums are computed in the order of the members, so every member gets the same bits; bf16 is summed in fp32
// and rounded once. Does nothing when all spans are empty. Throws InternalError when the lengths do not match.
void combine(CollectiveKind kind, Precision precision, std::span<const std::span<const std::byte>> in,
             std::span<const std::span<std::byte>> out);

}  // namespace rehearsal::loopback
