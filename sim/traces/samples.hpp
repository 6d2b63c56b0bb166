// What kernels of known shapes took: matrix products, fused attention, and memory-bound kernels by the bytes that they
// move. From the shapes that PyTorch recorded of operators (record_shapes=True), which launched the kernels.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernels.hpp"
#include "models/transformer.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

// Whether an operator of PyTorch is one of those below.
bool is_sampled(std::string_view name);

// Whose kernel of attention it is; nothing: of none that the program knows.
std::optional<models::AttentionKernel> attention_kernel(std::string_view kernel);

// One shape, and how long the kernels of a call took together (a backward pass of attention has several): the median
// of all calls in the trace, and their spread.
struct Sample {
  std::string name, type;  // "aten::mm", "c10::BFloat16"
  std::uint64_t count = 0;
  Time p10, median, p90;
};
struct GemmSample : Sample {
  Gemm gemm;
  double flop_rate() const { return gemm.flops().value() / to_seconds(median); }
};
struct AttentionSample : Sample {
  FusedAttention attention;
  bool mask_known = false;       // causal or not: where the values of inputs were recorded
  std::uint32_t kernel = kNone;  // of Trace::names: the longest that it launched
};
struct TrafficSample : Sample {
  Bytes traffic;  // read and written, by the shapes
};
struct Samples {
  std::vector<GemmSample> gemms;            // longest in sum first
  std::vector<AttentionSample> attention;   // likewise
  std::vector<TrafficSample> memory_bound;  // likewise
  // Kernels of sampled kinds, and how many of them have shapes.
  std::uint64_t kernels = 0, with_shapes = 0;
};
Samples samples(const Trace& trace);

// The product that an operator is; nothing for others and for shapes that make none.
std::optional<Gemm> product_of(const Operator& op);

}  // namespace rehearsal::traces
