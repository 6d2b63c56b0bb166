#include "gpu/probe_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cpu/kernels.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::gpu {
namespace {

constexpr Time kTick = picoseconds(1000);    // the least time reported
const Time kSample = seconds(200e-6);        // per sample: events resolve half a microsecond, a quarter of a percent
const Time kLaunch = seconds(8e-6);          // more than the host takes to queue one launch
const Time kMostHeadStart = seconds(10e-3);  // a queue holds about a thousand launches
constexpr std::int64_t kMostRepeats = 48;
constexpr int kWarmup = 3, kSamples = 16, kQuickSamples = 10;
constexpr std::int64_t kPattern = 32 << 20;  // bytes, repeated over the arena: caches go by address, not value
constexpr std::int64_t kShared = 16 << 10;   // bytes per part: scratch, then the sum, then the steps
static_assert((kernels::kScratch + 2) * std::int64_t(sizeof(double)) <= kShared);

// xorshift (Marsaglia 2003).
class Random {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

// Uniform in (-1, 1) as bf16, with magnitude at least 2^-8. Two in a row are also one fp32 number, of the second's
// magnitude, with random low digits. In e4m3 every byte but the two NaNs (0x7f, 0xff), magnitude at most 1.
std::vector<std::byte> random_numbers(std::size_t bytes, bool positive, bool fp8) {
  std::vector<std::byte> all(bytes);
  Random random;
  if (fp8) {
    for (auto& byte : all) {
      const auto bits = random.next() >> 32;
      byte = std::byte((bits & 0x80) | (bits >> 8) % 0x38);  // sign; exponent and digits below those of 1
    }
    return all;
  }
  for (std::size_t i = 0; i + 1 < bytes; i += 2) {
    const auto bits = random.next() >> 32;
    const float size = std::max(float(bits & 0xffff) * 0x1p-16f, 0x1p-8f);
    std::uint32_t as_float;
    std::memcpy(&as_float, &size, sizeof as_float);
    const auto half = std::uint16_t((as_float >> 16) | (!positive && (bits >> 16 & 1) != 0 ? 0x8000u : 0u));
    std::memcpy(&all[i], &half, sizeof half);
  }
  return all;
}

std::int64_t width(const Kernel& kernel, std::size_t operand) {
  if (kernel.precision == Precision::fp8 && operand == 2) return bytes_per_element(Precision::bf16);  // cuda/gemm.hpp
  return bytes_per_element(operand_precision(kernel, operand));
}

std::int64_t rounded(std::int64_t bytes) {
  constexpr auto kBlock = std::int64_t(kAlignment);
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

LaunchTime launch_time(std::vector<Time> times) {
  INVARIANT(!times.empty(), "nothing was measured");
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return std::max(times[std::size_t(share * double(times.size() - 1) + .5)], kTick);
  };
  return {at(.1), at(.5), at(.9)};
}

LaunchTime divided(const LaunchTime& t, std::int64_t by) {
  const auto each = [by](Time time) { return std::max(Time(time.count() / by), kTick); };
  return {each(t.p10), each(t.p50), each(t.p90)};
}

ProbeBench::ProbeBench(Device& device, const ProbeOptions& options)
    : device_(device), options_(options), multiprocessors_(device.facts().multiprocessors), pool_(device.make_pool()) {
  if (options.parts > 1) multiprocessors_ = device.partition(options.parts).front();
  for (std::size_t part = 0; part < std::max<std::size_t>(options.parts, 1); ++part)
    streams_.push_back(device.make_stream(part));
  other_ = device.make_stream(0);
  arena_ = allocate(options.arena);
  pattern_size_ = std::min(options.arena, Bytes(kPattern));
  const auto size = static_cast<std::size_t>(pattern_size_.count());
  for (const auto pattern : {kSigned, kPositive, kFp8})
    patterns_[pattern] = reinterpret_cast<Address>(upload(random_numbers(size, pattern == kPositive, pattern == kFp8)));
  std::vector<std::byte> shared(parts() * kShared);
  const std::int64_t steps = 10;
  for (std::size_t part = 0; part < parts(); ++part)
    std::memcpy(&shared[part * kShared + (kernels::kScratch + 1) * sizeof(double)], &steps, sizeof steps);
  shared_ = reinterpret_cast<Address>(upload(shared));
  drain_all();
}

ProbeBench::~ProbeBench() {
  try {
    drain_all();
    for (const auto& list : {blocks_, data_blocks_})
      for (const Address block : list) device_.free(block, streams_.front());
    drain_all();
  } catch (...) {  // the device's failure is reported elsewhere
  }
}

Address ProbeBench::allocate(Bytes size) {
  blocks_.push_back(device_.allocate(pool_, size, streams_.front()));
  return blocks_.back();
}

template <class T>
T* ProbeBench::upload(const std::vector<T>& values) {
  const Bytes size(static_cast<std::int64_t>(values.size() * sizeof(T)));
  const Address block = allocate(size);
  device_.copy(block, values.data(), size, Direction::to_device, streams_.front());
  return reinterpret_cast<T*>(block);
}

EventId ProbeBench::event(std::size_t number) {
  while (events_.size() <= number) events_.push_back(device_.make_event());
  return events_[number];
}

void ProbeBench::wait_for(EventId event) const {
  while (!device_.reached(event)) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void ProbeBench::drain_all() {
  std::size_t number = 0;
  for (const StreamId stream : streams_) device_.record(event(number++), stream);
  device_.record(event(number++), other_);
  for (std::size_t i = 0; i < number; ++i) wait_for(event(i));
}

// ------------------------------------------------------------------------------------------------------------ timing

Time ProbeBench::estimate(const Launch& launch) {
  for (int i = 0; i < kWarmup; ++i) launch(0, i);
  device_.record(event(0), streams_.front());
  launch(0, kWarmup);
  device_.record(event(1), streams_.front());
  wait_for(event(1));
  return std::max(device_.between(event(0), event(1)), kTick);
}

LaunchTime ProbeBench::time(std::size_t parts, const Launch& launch, Time settle) {
  const Time about = estimate(launch);
  for (std::size_t part = 1; part < parts; ++part)
    for (int i = 0; i < kWarmup; ++i) launch(part, i);
  drain_all();
  const auto repeats = std::clamp<std::int64_t>(kSample.count() / about.count() + 1, 1, kMostRepeats);
  const auto samples = static_cast<std::size_t>(options_.quick ? kQuickSamples : kSamples);
  const std::int64_t before = std::clamp<std::int64_t>(settle.count() / about.count(), 0, 2000);

  // All parts start together, once the host has queued much of the work: a stream that runs dry would show host time.
  const EventId go = event(0);
  const auto boundary = [&](std::size_t part, std::size_t sample) { return event(1 + part * (samples + 1) + sample); };
  const std::int64_t launches = std::int64_t(parts) * (std::int64_t(samples) * repeats + before);
  device_.spin(std::min(kMostHeadStart, launches * kLaunch), streams_.front());
  device_.record(go, streams_.front());
  for (std::size_t part = 1; part < parts; ++part) device_.wait(streams_[part], go);
  std::vector<std::int64_t> round(parts, kWarmup + 1);
  for (std::int64_t i = 0; i < before; ++i)
    for (std::size_t part = 0; part < parts; ++part) launch(part, round[part]++);
  for (std::size_t sample = 0; sample < samples; ++sample)
    for (std::size_t part = 0; part < parts; ++part) {
      device_.record(boundary(part, sample), streams_[part]);
      for (std::int64_t i = 0; i < repeats; ++i) launch(part, round[part]++);
    }
  for (std::size_t part = 0; part < parts; ++part) device_.record(boundary(part, samples), streams_[part]);
  for (std::size_t part = 0; part < parts; ++part) wait_for(boundary(part, samples));

  // Samples after the first part has finished ran beside fewer parts than intended.
  Time first_done = device_.between(go, boundary(0, samples));
  for (std::size_t part = 1; part < parts; ++part)
    first_done = std::min(first_done, device_.between(go, boundary(part, samples)));
  std::vector<Time> times;
  for (std::size_t part = 0; part < parts; ++part)
    for (std::size_t sample = 0; sample < samples; ++sample)
      if (device_.between(go, boundary(part, sample + 1)) <= first_done)
        times.push_back(Time(device_.between(boundary(part, sample), boundary(part, sample + 1)).count() / repeats));
  return launch_time(std::move(times));
}

std::optional<LaunchTime> ProbeBench::time_beside(const Launch& launch, const std::function<void(std::int64_t)>& load) {
  constexpr int kBesides = 8, kDoublings = 11;
  const Time about = estimate(launch);
  const auto repeats = std::clamp<std::int64_t>(kSample.count() / about.count() + 1, 1, kMostRepeats);
  std::int64_t loads = 8, loaded = 0;
  for (int doubling = 0; doubling < kDoublings; ++doubling, loads *= 2) {
    drain_all();
    const EventId go = event(0), load_over = event(1);
    device_.record(go, streams_.front());
    device_.wait(other_, go);
    device_.spin(std::min(kMostHeadStart, (loads + kBesides * repeats) * kLaunch), other_);
    device_.record(go, other_);
    device_.wait(streams_.front(), go);
    for (std::int64_t i = 0; i < loads; ++i) load(loaded++);
    device_.record(load_over, other_);
    std::int64_t round = 0;
    for (std::size_t sample = 0; sample < kBesides; ++sample) {
      device_.record(event(2 + sample), streams_.front());
      for (std::int64_t i = 0; i < repeats; ++i) launch(0, round++);
    }
    device_.record(event(2 + kBesides), streams_.front());
    wait_for(event(2 + kBesides)), wait_for(load_over);
    if (device_.between(event(2 + kBesides), load_over) < Time{}) continue;  // the load ended first
    std::vector<Time> times;
    for (std::size_t sample = 0; sample < kBesides; ++sample)
      times.push_back(Time(device_.between(event(2 + sample), event(3 + sample)).count() / repeats));
    return launch_time(std::move(times));
  }
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------------- operands

std::optional<std::string> ProbeBench::prepare(const Kernel& kernel, std::size_t parts, std::optional<Bytes> room) {
  const Bytes all = room.value_or(options_.arena);
  const auto needed = operand_elements(kernel, 0);
  operands_ = needed.count, set_size_ = 0;
  for (std::size_t i = 0; i < operands_; ++i) {
    offset_[i] = set_size_;
    set_size_ += rounded(needed.elements[i] * width(kernel, i));
  }
  const std::int64_t most = all.count() / std::int64_t(parts) / set_size_;
  if (most < 1)
    return fmt::format("its operands are {}, and {} are set aside for {} of them", show(Bytes(set_size_)), show(all),
                       parts);
  sets_ = std::min(most, options_.rotation.count() / set_size_ + 1);
  drain_all();
  const Address from = patterns_[kernel.precision == Precision::fp8 ? kFp8
                                 : traits(kernel.kind).positive     ? kPositive
                                                                    : kSigned];
  const std::int64_t used = sets_ * set_size_ * std::int64_t(parts);
  for (std::int64_t at = 0; at < used; at += pattern_size_.count())
    device_.copy(arena_ + at, from, Bytes(std::min(pattern_size_.count(), used - at)), Direction::within_device,
                 streams_.front());
  make_data(kernel);
  drain_all();
  return std::nullopt;
}

void ProbeBench::make_data(const Kernel& kernel) {
  for (const Address block : data_blocks_) device_.free(block, streams_.front());
  data_blocks_.clear();
  call_ = {};
  call_.kernel = kernel, call_.kernel.offsets = {};
  const std::int64_t a = kernel.dims[0], b = kernel.dims[1], c = kernel.dims[2];
  Random random;
  const auto keep = [&](auto&& values) {
    auto* at = upload(values);
    data_blocks_.push_back(blocks_.back()), blocks_.pop_back();
    return at;
  };
  slots_ = slots_operand(kernel.kind) ? reinterpret_cast<Address>(keep(cpu::slots_in_turn(kernel))) : nullptr;
  if (traits(kernel.kind).data == BatchData::tokens) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(a));
    for (auto& token : tokens) token = std::int32_t(random.next() >> 33) % std::int32_t(c);
    call_.tokens = keep(tokens), call_.targets = keep(tokens);
  } else if (traits(kernel.kind).data == BatchData::rows) {
    std::vector<float> rows(static_cast<std::size_t>(a * b));
    for (auto& row : rows) row = float(std::int32_t(random.next() >> 32)) * 0x1p-31f;
    call_.rows = keep(rows), call_.row_targets = keep(rows);
  } else if (traits(kernel.kind).optimizer) {
    call_.rates = {1e-3f, .9f, .999f, 1e-8f, .01f};
    call_.counted = keep(std::vector<kernels::Range>{{0, a}}), call_.ranges = 1;
  }
}

kernels::Call ProbeBench::call(std::size_t part, std::int64_t round) const {
  kernels::Call call = call_;
  const Address set = arena_ + (std::int64_t(part) * sets_ + round % sets_) * set_size_;
  for (std::size_t i = 0; i < operands_; ++i) call.operands[i] = set + offset_[i];
  if (slots_) call.operands[*slots_operand(call.kernel.kind)] = slots_;
  auto* const shared = reinterpret_cast<double*>(shared_ + part * kShared);
  call.scratch = shared;
  if (call.counted) {
    call.squared_gradients = shared + kernels::kScratch;
    call.steps = reinterpret_cast<const std::int64_t*>(shared + kernels::kScratch + 1);
  }
  return call;
}

}  // namespace rehearsal::gpu
