// A model of one kernel's time off the measured shapes: t = sum of terms, each a count of the shape times seconds per
// count, none negative. Fitted to medians by least squares of relative errors, so that microseconds count as much as
// milliseconds.
//
// Matrix products: call, flop, output, weight, input (elements of the three matrices: packing, traffic, edges).
// Attention: call, product (pairs x d), score (pairs of a query and a key: exponentials), row (b h s), element (b h s
// d). All others: call, byte, far_byte (of Kernel::traffic() beyond a knee: what no longer fits a cache), row.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "base/kernels.hpp"
#include "base/units.hpp"
#include "cost/least_squares.hpp"

namespace rehearsal::cost {

struct Quantiles {
  Time p10, p50, p90;
};

struct KernelSample {
  Kernel kernel;  // offsets do not count
  Time p10, p50, p90;
};

// Names of the terms of a kind, in the order of KernelFit::seconds.
std::span<const std::string_view> terms(KernelKind kind);
// Whether the kind has a knee.
bool has_knee(KernelKind kind);

struct KernelFit {
  Counts seconds{};  // per count of each term
  Bytes knee;        // 0: none
  // |predicted / measured - 1| over its samples: as fitted, and each predicted by a fit to the others.
  double error = 0, worst = 0, left_out = 0, left_out_worst = 0;

  double time(const Kernel& kernel) const;  // seconds
};

// All samples are of one kind and precision, at least one.
KernelFit fit(std::span<const KernelSample> samples);

}  // namespace rehearsal::cost
