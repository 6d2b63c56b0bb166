// Kernels by shape: the shared vocabulary of models (how much), graph (what), cost (how long) and hw (really).
// All counts are per GPU, after sharding.
#pragma once
#include <compare>
#include <cstdint>

#include "base/units.hpp"

namespace rehearsal {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
constexpr const char* name(Precision p) {
  switch (p) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
  }
  return "";
}
constexpr std::int64_t bytes_per_element(Precision p) {
  switch (p) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
  }
  return 0;
}

// C[m,n] += A[m,k] B[k,n], `batch` times independently.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Precision precision = Precision::bf16;
  bool weight_gradient = false;  // accumulates over tokens: another kernel family with its own rate
  friend auto operator<=>(const Gemm&, const Gemm&) = default;
  Flops flops() const { return Flops(2. * double(m) * double(n) * double(k) * double(batch)); }
};

// One fused (flash) attention kernel; scores never reach memory.
struct FusedAttention {
  std::int64_t batch = 1, heads = 0, queries = 0, keys = 0, head_dim = 0;
  bool causal = true, backward = false;
  friend auto operator<=>(const FusedAttention&, const FusedAttention&) = default;
  // Forward 4 s^2 d per head (half when causal), backward 2.5 times that (FlashAttention-2, arXiv 2307.08691, 3.1).
  Flops flops() const {
    return Flops(4. * double(batch) * double(heads) * double(queries) * double(keys) * double(head_dim) *
                 (causal ? .5 : 1.) * (backward ? 2.5 : 1.));
  }
};

// Kernels whose time is bytes over bandwidth. Dropout kernels are bound by their random generator instead:
// classes of their own, because measured time and byte count disagree (models/README.md).
enum class Traffic : std::uint8_t { plain, with_dropout_forward, with_dropout_backward };
struct MemoryBound {
  Bytes traffic;             // read + written
  std::int64_t kernels = 1;  // launches that the traffic is spread over
  Traffic kind = Traffic::plain;
  friend auto operator<=>(const MemoryBound&, const MemoryBound&) = default;
};

enum class CollectiveKind : std::uint8_t { all_reduce, reduce_scatter, all_gather };

// Where the ranks of a group sit: all that decides the time of a collective on a symmetric cluster.
struct GroupShape {
  std::uint32_t ranks = 1;       // participants
  std::uint32_t per_node = 1;    // of them in one node
  std::uint32_t concurrent = 1;  // groups of the same kind that share the NICs of a node at the same time
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};

}  // namespace rehearsal
