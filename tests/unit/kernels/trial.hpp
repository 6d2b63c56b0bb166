// One kernel on random operands, run by the sources of the GPU and by hw/cpu, and compared.
#pragma once
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cpu/kernels.hpp"
#include "kernels/bf16.hpp"
#include "kernels/host.hpp"

namespace rehearsal::kernels {

using Values = std::vector<float>;
using Operands = std::vector<Values>;

inline Values random_values(std::size_t n, std::mt19937& bits, double deviation = 1) {
  std::normal_distribution<double> draw(0, deviation);
  Values values(n);
  for (float& v : values) v = float(draw(bits));
  return values;
}

// An operand as stored, with guard elements of a pattern before and behind it that must not be written.
class Stored {
 public:
  // `shift`: elements that it begins after a multiple of 16 bytes.
  Stored(const Values& values, Precision precision, std::size_t shift)
      : bf16_(precision == Precision::bf16),
        size_(values.size()),
        first_((kGuard + shift) * (bf16_ ? 2 : 4)),
        bytes_((size_ * (bf16_ ? 2 : 4) + first_ + kGuard * 4 + 15) / 16) {
    std::memset(bytes_.data(), kPattern, bytes_.size() * sizeof(Line));
    for (std::size_t i = 0; i < size_; ++i) {
      if (bf16_)
        reinterpret_cast<BFloat16*>(data())[i] = stored<BFloat16>(values[i]);
      else
        reinterpret_cast<float*>(data())[i] = values[i];
    }
  }
  void* data() { return reinterpret_cast<std::byte*>(bytes_.data()) + first_; }
  std::span<std::byte> whole() { return std::as_writable_bytes(std::span(bytes_)); }  // with the guard elements
  Values values() {
    Values result(size_);
    for (std::size_t i = 0; i < size_; ++i)
      result[i] = bf16_ ? widened(reinterpret_cast<BFloat16*>(data())[i]) : reinterpret_cast<float*>(data())[i];
    return result;
  }
  bool guards_stand() {
    const auto* at = reinterpret_cast<unsigned char*>(bytes_.data());
    const std::size_t end = first_ + size_ * (bf16_ ? 2 : 4);
    for (std::size_t i = 0; i < bytes_.size() * sizeof(Line); ++i)
      if ((i < first_ || i >= end) && at[i] != kPattern) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 16;
  static constexpr unsigned char kPattern = 0xa5;
  struct alignas(16) Line {
    std::array<std::byte, 16> bytes;
  };
  bool bf16_;
  std::size_t size_, first_;
  std::vector<Line> bytes_;
};

// All memory that a Call points to, in pieces: must be copied to where it runs, and back.
using Pieces = std::vector<std::span<std::byte>>;

// The kernel in fp32, its operands before it runs, and its other inputs.
struct Trial {
  Kernel kernel;
  std::int64_t tensor = 0, data = 0, context = 0;
  Operands operands;
  std::vector<std::int32_t> tokens, targets, documents;
  Values rows, row_targets;
  backend::TrainingData learning;
  std::int64_t steps = 0;
  std::vector<Range> counted;
  bool counts = false;
  double squares = 0;  // of the counted gradients, after a run

  Precision precision(std::size_t operand) const { return operand_precision(kernel, operand); }

  // Inputs that are exact in bf16, so that both sides start from the same numbers.
  Trial in_bf16() const {
    Trial other = *this;
    other.kernel.precision = Precision::bf16;
    for (std::size_t o = 0; o < operands.size(); ++o)
      if (other.precision(o) == Precision::bf16)
        for (float& v : other.operands[o]) v = from_bf16(to_bf16(v));
    return other;
  }

  Operands by_cpu() {
    Operands after = operands;
    std::vector<float*> pointers;
    for (Values& operand : after) pointers.push_back(operand.data());
    Kernel fp32 = kernel;
    fp32.precision = Precision::fp32;
    squares = 0;
    cpu::perform(fp32, pointers,
                 {.tensor = tensor,
                  .data = data,
                  .context = context,
                  .batch = {tokens, targets, rows, row_targets, documents},
                  .learning = &learning,
                  .step = steps,
                  .counted = counted,
                  .squared_gradients = counts ? &squares : nullptr});
    return after;
  }

  Operands by_host(std::size_t shift = 0, const HostOrder& order = {}) {
    return by(shift, [&](const Call& call) { perform_on_host(call, plain_product, order); });
  }

  // `run` is given the Call and, if it takes them, its Pieces.
  template <class Run>
  Operands by(std::size_t shift, const Run& run) {
    std::vector<Stored> store;
    for (std::size_t o = 0; o < operands.size(); ++o) store.emplace_back(operands[o], precision(o), shift);
    std::vector<double> scratch(kScratch, std::nan(""));
    Call call;
    call.kernel = kernel;
    for (std::size_t o = 0; o < store.size(); ++o) call.operands[o] = store[o].data();
    call.tensor = tensor, call.data = data, call.context = context;
    call.tokens = tokens.data(), call.targets = targets.data();
    call.rows = rows.data(), call.row_targets = row_targets.data(), call.documents = documents.data();
    call.rates = {learning.learning_rate, learning.beta1, learning.beta2, learning.epsilon, learning.weight_decay};
    call.steps = &steps;
    squares = 0;
    call.squared_gradients = counts ? &squares : nullptr;
    call.counted = counted.data(), call.ranges = std::int64_t(counted.size());
    call.scratch = scratch.data();
    if constexpr (std::is_invocable_v<const Run&, const Call&, const Pieces&>) {
      Pieces pieces;
      for (Stored& operand : store) pieces.push_back(operand.whole());
      const auto add = [&](auto& values) { pieces.push_back(std::as_writable_bytes(std::span(values))); };
      add(tokens), add(targets), add(rows), add(row_targets), add(documents), add(counted), add(scratch);
      pieces.push_back(std::as_writable_bytes(std::span(&steps, 1)));
      pieces.push_back(std::as_writable_bytes(std::span(&squares, 1)));
      run(call, pieces);
    } else {
      run(call);
    }
    Operands after;
    for (Stored& operand : store) {
      CHECK(operand.guards_stand());
      after.push_back(operand.values());
    }
    return after;
  }
};

// Operands of N(0, 1) of the sizes that hw/cpu says; tokens and targets below `vocabulary`.
inline Trial trial(KernelKind kind, KernelDims dims, std::int64_t tensor = 0, std::int64_t data = 0, unsigned seed = 1,
                   int vocabulary = 1) {
  std::mt19937 bits(seed);
  Trial result;
  result.kernel = {kind, dims, {}, Precision::fp32};
  result.tensor = tensor, result.data = data;
  const auto sizes = operand_elements(result.kernel, data);
  for (std::size_t o = 0; o < sizes.count; ++o)
    result.operands.push_back(random_values(std::size_t(sizes.elements[o]), bits));
  std::uniform_int_distribution<std::int32_t> word(0, vocabulary - 1);
  for (std::int64_t i = 0; i < dims[0]; ++i) result.tokens.push_back(word(bits)), result.targets.push_back(word(bits));
  if (kind == KernelKind::load_rows) result.rows = random_values(std::size_t(dims[0] * dims[1]), bits);
  if (kind == KernelKind::squared_error || kind == KernelKind::squared_error_gradient)
    result.row_targets = random_values(std::size_t(dims[0] * dims[1]), bits);
  return result;
}

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
inline bool same_bits(const Operands& a, const Operands& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t o = 0; o < a.size(); ++o)
    if (!same_bits(a[o], b[o])) return false;
  return true;
}

// The largest error beyond one rounding of the expected number, relative to the largest expected number. Rounding to
// bf16 is within 2^-8 of the number.
inline double distance(const Values& found, const Values& expected, Precision precision) {
  REQUIRE(found.size() == expected.size());
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double allowed = precision == Precision::bf16 ? std::ldexp(std::abs(double(expected[i])), -8) : 0;
    const double error = std::abs(double(found[i]) - double(expected[i])) - allowed;
    if (!(error <= worst)) worst = error;  // a NaN shows
    scale = std::max(scale, std::abs(double(expected[i])));
  }
  return worst / scale;
}

inline double double_in(const Values& floats) {
  double value;
  REQUIRE(floats.size() * sizeof(float) == sizeof(value));
  std::memcpy(&value, floats.data(), sizeof(value));
  return value;
}

}  // namespace rehearsal::kernels
