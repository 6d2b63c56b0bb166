#include "cost/kernel_fit.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/least_squares.hpp"

namespace rehearsal::cost {
namespace {

enum class Shape : std::uint8_t { matrix, attention, scan, traffic };

constexpr std::array<std::string_view, 5> kMatrix{"call", "flop", "output", "weight", "input"};
constexpr std::array<std::string_view, 5> kAttention{"call", "product", "score", "row", "element"};
constexpr std::array<std::string_view, 4> kScan{"call", "byte", "far_byte", "product"};
constexpr std::array<std::string_view, 4> kTraffic{"call", "byte", "far_byte", "row"};

Shape shape_of(KernelKind kind) {
  if (traits(kind).linear != LinearProduct::none) return Shape::matrix;
  if (traits(kind).attention != AttentionPass::none) return Shape::attention;
  return traits(kind).scan ? Shape::scan : Shape::traffic;
}

Counts counts(const Kernel& kernel, Bytes knee) {
  const auto d = [&](std::size_t i) { return double(kernel.dims[i]); };
  switch (shape_of(kernel.kind)) {
    case Shape::matrix: {
      const LinearLayer of = linear_layer(kernel);
      const double rows = double(of.products * of.rows), outputs = double(of.outputs), inputs = double(of.inputs);
      return {1, kernel.flops().value(), rows * outputs, double(of.weights) * outputs * inputs, rows * inputs};
    }
    case Shape::attention: {
      const double heads = d(0) * d(1);
      const auto shape = fused_attention(kernel);
      const double queries = double(shape.queries), keys = double(shape.keys);
      const double share = shape.scores() / shape.all_scores();
      const double pairs = heads * share * (shape.causal ? queries * (keys + 1) / 2 : queries * keys);
      return {1, pairs * d(3), pairs, heads * d(2), heads * d(2) * d(3)};
    }
    case Shape::scan:
    case Shape::traffic: {
      const double moved = double(kernel.traffic().count());
      const double far = knee.count() > 0 ? std::max(0., moved - double(knee.count())) : 0;
      if (traits(kernel.kind).scan) return {1, moved, far, scan_products(kernel), 0};
      return {1, moved, far, traits(kernel.kind).flat ? 0 : d(0), 0};
    }
  }
  return {};
}

// Relative to the measured time: then every target is 1.
std::vector<Counts> rows_of(std::span<const KernelSample* const> samples, Bytes knee) {
  std::vector<Counts> rows;
  for (const auto* s : samples) {
    rows.push_back(counts(s->kernel, knee));
    for (auto& count : rows.back()) count /= to_seconds(s->p50);
  }
  return rows;
}

KernelFit fit_once(std::span<const KernelSample* const> samples) {
  const auto kind = samples.front()->kernel.kind;
  KernelFit fit;
  NonNegative best;
  std::vector<Bytes> traffic;
  for (const auto* s : samples) traffic.push_back(s->kernel.traffic());
  for (const Bytes knee : has_knee(kind) ? knees(traffic) : std::vector{Bytes()}) {
    const auto s = non_negative_least_squares(rows_of(samples, knee), terms(kind).size());
    if (s.loss < best.loss * (knee == Bytes() ? 1 : kMustEarn)) best = s, fit.knee = knee;
  }
  INVARIANT(std::isfinite(best.loss), "no term of a kernel explains its samples");
  fit.seconds = best.factors;
  return fit;
}

double relative_error(const KernelFit& fit, const KernelSample& sample) {
  return std::abs(fit.time(sample.kernel) / to_seconds(sample.p50) - 1);
}

}  // namespace

std::span<const std::string_view> terms(KernelKind kind) {
  switch (shape_of(kind)) {
    case Shape::matrix:
      return kMatrix;
    case Shape::attention:
      return kAttention;
    case Shape::scan:
      return kScan;
    case Shape::traffic:
      break;
  }
  return kTraffic;
}

bool has_knee(KernelKind kind) { return shape_of(kind) == Shape::traffic || shape_of(kind) == Shape::scan; }

double KernelFit::time(const Kernel& kernel) const {
  const auto c = counts(kernel, knee);
  double sum = 0;
  for (std::size_t i = 0; i < kMostTerms; i++) sum += seconds[i] * c[i];
  return sum;
}

KernelFit fit(std::span<const KernelSample> samples) {
  INVARIANT(!samples.empty(), "a fit needs a sample");
  std::vector<const KernelSample*> all;
  for (const auto& s : samples) {
    INVARIANT(s.kernel.kind == samples.front().kernel.kind && s.kernel.precision == samples.front().kernel.precision &&
                  s.p50 > Time(),
              "samples of one kind and precision, above zero");
    all.push_back(&s);
  }
  KernelFit result = fit_once(all);
  std::vector<double> inside, outside;
  for (std::size_t i = 0; i < all.size(); i++) {
    inside.push_back(relative_error(result, *all[i]));
    if (all.size() == 1) break;
    auto others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    outside.push_back(relative_error(fit_once(others), *all[i]));
  }
  result.error = median(inside);
  result.worst = *std::max_element(inside.begin(), inside.end());
  if (!outside.empty()) {
    result.left_out = median(outside);
    result.left_out_worst = *std::max_element(outside.begin(), outside.end());
  }
  return result;
}

}  // namespace rehearsal::cost
