#include "calibrate/kernel_times.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <exception>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "cpu/kernels.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::calibrate {
namespace {

constexpr int kWarmup = 3;
constexpr Time kTick = picoseconds(1000);  // of the clock
constexpr std::int64_t kLine = 16;         // floats of a cache line, where operands begin
constexpr std::size_t kMostSets = 256;

// Uniform in (-1, 1): xorshift (Marsaglia 2003). Neither zeros nor denormals, which some operations handle specially.
class Noise {
 public:
  float next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return float(std::int32_t(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

// Several sets of operands of one kernel, and the data of a micro-batch of its size.
class Operands {
 public:
  Operands(const Kernel& kernel, Bytes footprint) : needed_(operand_elements(kernel, 0)) {
    std::int64_t set = 0;
    for (std::size_t i = 0; i < needed_.count; i++) {
      stride_[i] = (needed_.elements[i] + kLine - 1) / kLine * kLine;
      set += stride_[i] * std::int64_t(sizeof(float));
    }
    sets_ = std::clamp<std::size_t>(std::size_t(footprint.count() / std::max<std::int64_t>(set, 1)), 1, kMostSets);
    Noise noise;
    const bool positive = traits(kernel.kind).positive;
    for (std::size_t i = 0; i < needed_.count; i++) {
      buffers_[i].resize(std::size_t(stride_[i]) * sets_ + kLine);
      for (float& x : buffers_[i]) x = positive ? std::abs(noise.next()) : noise.next();
    }
    if (const auto operand = slots_operand(kernel.kind)) {
      const auto slots = cpu::slots_in_turn(kernel);
      auto& all = buffers_[*operand];
      for (std::size_t i = 0; i < all.size(); i++) all[i] = std::bit_cast<float>(slots[i % slots.size()]);
    }
    fill_batch(kernel, noise);
    // The last written data is still in the caches; a pass over other memory evicts it.
    std::vector<float> elsewhere(std::size_t(footprint.count()) / sizeof(float), 1.f);
    learning_.weight_decay = elsewhere.back() * 1e-2f;  // keeps it from being optimised away
  }

  void perform(const Kernel& kernel, std::size_t round) {
    std::array<float*, kMostOperands> at{};
    for (std::size_t i = 0; i < needed_.count; i++)
      at[i] = aligned(buffers_[i].data()) + std::int64_t(round % sets_) * stride_[i];
    cpu::KernelContext around;
    around.batch = {tokens_, targets_, rows_, row_targets_};
    around.learning = &learning_;
    around.step = std::int64_t(round);
    double squares = 0;
    around.squared_gradients = &squares;
    const cpu::Range all{0, kernel.dims[0]};
    around.counted = {&all, 1};
    cpu::perform(kernel, {at.data(), needed_.count}, around);
  }

 private:
  static float* aligned(float* p) {
    const auto at = reinterpret_cast<std::uintptr_t>(p), line = std::uintptr_t(kLine) * sizeof(float);
    return reinterpret_cast<float*>((at + line - 1) / line * line);
  }

  void fill_batch(const Kernel& kernel, Noise& noise) {
    const std::int64_t a = kernel.dims[0], b = kernel.dims[1], c = kernel.dims[2];
    const BatchData data = traits(kernel.kind).data;
    const std::int64_t tokens = data == BatchData::tokens ? a : 0, rows = data == BatchData::rows ? a * b : 0;
    const auto draw = [&] { return std::int32_t(std::abs(noise.next()) * float(c - 1)); };
    for (std::int64_t i = 0; i < tokens; i++) tokens_.push_back(draw()), targets_.push_back(draw());
    for (std::int64_t i = 0; i < rows; i++) rows_.push_back(noise.next()), row_targets_.push_back(noise.next());
  }

  OperandElements needed_;
  std::array<std::int64_t, kMostOperands> stride_{};
  std::size_t sets_ = 1;
  std::array<std::vector<float>, kMostOperands> buffers_;
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<float> rows_, row_targets_;
  backend::TrainingData learning_;
};

}  // namespace

Spread spread(std::vector<Time>& times) {
  INVARIANT(!times.empty(), "nothing was measured");
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) { return times[std::size_t(share * double(times.size() - 1) + .5)]; };
  return {at(.1), at(.5), at(.9)};
}

std::vector<KernelTime> time_kernels(std::span<const Kernel> kernels, const Settings& settings) {
  std::vector<std::vector<std::vector<Time>>> times(settings.ranks, std::vector<std::vector<Time>>(kernels.size()));
  std::barrier together(std::ptrdiff_t(settings.ranks));
  std::vector<std::exception_ptr> errors(settings.ranks);
  std::atomic<bool> failed{false};  // set by any thread: all give up at the next barrier
  const auto guarded = [&](unsigned r, auto&& work) {
    try {
      work();
    } catch (...) {
      errors[r] = std::current_exception();
      failed = true;
    }
    together.arrive_and_wait();
  };
  const auto rank = [&](unsigned r) {
    for (std::size_t k = 0; k < kernels.size(); k++) {
      std::optional<Operands> operands;
      guarded(r, [&] { operands.emplace(kernels[k], settings.footprint); });
      if (failed) return;
      guarded(r, [&] {
        for (int round = 0; round < kWarmup + settings.repetitions; round++) {
          const Time begin = dispatch::now();
          operands->perform(kernels[k], std::size_t(round));
          const Time end = dispatch::now();
          if (round >= kWarmup) times[r][k].push_back(std::max(end - begin, kTick));
        }
      });
      if (failed) return;
      if (r == 0) settings.progress(k + 1);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < settings.ranks; r++) threads.emplace_back(rank, r);
  for (auto& t : threads) t.join();
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);

  std::vector<KernelTime> result;
  for (std::size_t k = 0; k < kernels.size(); k++) {
    std::vector<Time> all;
    for (unsigned r = 0; r < settings.ranks; r++) all.insert(all.end(), times[r][k].begin(), times[r][k].end());
    const auto s = spread(all);
    result.push_back({{kernels[k].kind, kernels[k].dims, {}}, s.p10, s.p50, s.p90});
  }
  return result;
}

}  // namespace rehearsal::calibrate
