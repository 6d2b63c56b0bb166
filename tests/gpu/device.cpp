// The interfaces gpu/device.hpp and gpu/communicator.hpp, tested on each implementation: a GPU with NCCL, or the
// stand-in. Hardware properties (concurrency, limits) are tested on hardware only.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <numeric>
#include <vector>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "cpu/kernels.hpp"
#include "machine.hpp"

namespace rehearsal::test {
namespace {

using gpu::Address;
using gpu::Direction;
using gpu::EventId;
using gpu::StreamId;

Bytes bytes(std::size_t size) { return Bytes(std::int64_t(size)); }

// A device with memory for numbers, and ways to look at them.
class Numbers {
 public:
  explicit Numbers(Machine& machine)
      : machine_(machine), device_(machine.device()), pool_(device_.make_pool()), stream_(device_.make_stream()) {}
  template <class X>
  X* make(const std::vector<X>& values) {
    const Address block = device_.allocate(pool_, size(values), stream_);
    device_.copy(block, values.data(), size(values), Direction::to_device, stream_);
    machine_.finish(stream_);
    return reinterpret_cast<X*>(block);
  }
  template <class X>
  std::vector<X> at(const X* block, std::size_t n) {
    std::vector<X> values(n);
    const auto staging = device_.pinned(size(values));
    device_.copy(staging.data(), block, size(values), Direction::to_host, stream_);
    machine_.finish(stream_);
    std::memcpy(values.data(), staging.data(), staging.size());
    return values;
  }
  std::int64_t number(const std::int64_t* block) { return at(block, 1)[0]; }
  StreamId stream() const { return stream_; }

 private:
  template <class X>
  static Bytes size(const std::vector<X>& values) {
    return bytes(values.size() * sizeof(X));
  }
  Machine& machine_;
  gpu::Device& device_;
  gpu::PoolId pool_;
  StreamId stream_;
};

template <class X>
Address address(X* block) {
  return reinterpret_cast<Address>(block);
}

}  // namespace

TEST_CASE("what the device says of itself") {
  Machine machine;
  const gpu::DeviceFacts& facts = machine.device().facts();
  std::printf("%s, compute capability %s, %d multiprocessors, driver %s, runtime %s\n", facts.name.c_str(),
              facts.capability.c_str(), facts.multiprocessors, facts.driver.c_str(), facts.runtime.c_str());
  CHECK_FALSE(facts.name.empty());
  CHECK(facts.multiprocessors > 0);
  if (!is_real()) return;
  CHECK(facts.memory > Bytes());
  CHECK(facts.free > Bytes());
  CHECK(facts.free <= facts.memory);
  CHECK(facts.libraries.size() == 2);
}

TEST_CASE("a stream waits for the event of another one, and events tell the time between them") {
  Machine machine;
  gpu::Device& device = machine.device();
  Numbers numbers(machine);
  std::int64_t* const n = numbers.make<std::int64_t>({7});
  const auto seen = device.pinned(Bytes(8));
  const StreamId first = device.make_stream(), second = device.make_stream();
  const EventId begin = device.make_event(), end = device.make_event(), done = device.make_event();
  CHECK(device.reached(begin));  // never recorded
  const Time lasts = seconds(.02);
  device.record(begin, first);
  device.spin(lasts, first);
  device.count(n, 5, first);
  device.record(end, first);
  device.wait(second, end);
  device.copy(seen.data(), n, Bytes(8), Direction::to_host, second);
  device.record(done, second);
  machine.finish(second);
  CHECK(device.reached(end));
  std::int64_t value = 0;
  std::memcpy(&value, seen.data(), sizeof value);
  CHECK(value == 12);  // without the wait: 7, copied 20 ms too early
  // The clock of the GPU and that of its events may be a microsecond apart (their resolutions).
  CHECK(device.between(begin, end) >= lasts - seconds(2e-6));
  CHECK(device.between(begin, end) < seconds(5));
  CHECK(device.between(end, done) >= Time());
}

TEST_CASE("pools count what is in use at most, each its own") {
  Machine machine;
  gpu::Device& device = machine.device();
  const gpu::PoolId pool = device.make_pool(), other = device.make_pool();
  const StreamId stream = device.make_stream();
  const Bytes size(1 << 20), rounding(4 << 20);
  CHECK(device.high_water(pool) == Bytes());
  const Address one = device.allocate(pool, size, stream), two = device.allocate(pool, size, stream);
  CHECK(reinterpret_cast<std::uintptr_t>(one) % (is_real() ? 256 : 16) == 0);
  CHECK((one + size.count() <= two || two + size.count() <= one));
  const Bytes both = device.high_water(pool);
  CHECK(both >= size + size);
  CHECK(both <= size + size + rounding);
  device.free(one, stream), device.free(two, stream);
  for (int i = 0; i < 8; ++i) device.free(device.allocate(pool, size, stream), stream);  // one at a time
  machine.finish(stream);
  CHECK(device.high_water(pool) == both);
  CHECK(device.high_water(other) == Bytes());
}

TEST_CASE("copies: the host may reuse what it gave at once, pageable or pinned") {
  Machine machine;
  gpu::Device& device = machine.device();
  Numbers numbers(machine);
  const std::size_t n = 1 << 20;
  std::int32_t* const there = numbers.make(std::vector<std::int32_t>(n, -1));
  std::int32_t* const copied = numbers.make(std::vector<std::int32_t>(n, -1));
  std::vector<std::int32_t> expected(n);
  std::iota(expected.begin(), expected.end(), 1);
  std::vector<std::int32_t> pageable = expected;
  const auto pinned = device.pinned(bytes(4 * n));
  for (const bool is_pinned : {false, true}) {
    CAPTURE(is_pinned);
    std::memcpy(pinned.data(), expected.data(), 4 * n);
    void* const source = is_pinned ? static_cast<void*>(pinned.data()) : pageable.data();
    device.spin(seconds(.005), numbers.stream());  // the stream comes to the copy after the call has returned
    device.copy(there, source, bytes(4 * n), Direction::to_device, numbers.stream());
    std::memset(source, 0, 4 * n);
    device.copy(copied, there, bytes(4 * n), Direction::within_device, numbers.stream());
    CHECK(numbers.at(copied, n) == expected);
    device.fill(address(copied), std::byte(0x11), bytes(4 * n - 4), numbers.stream());
    auto filled = std::vector<std::int32_t>(n, 0x11111111);
    filled.back() = expected.back();
    CHECK(numbers.at(copied, n) == filled);
  }
}

TEST_CASE("sums of messages, in fp32 and bf16") {
  Machine machine;
  gpu::Device& device = machine.device();
  Numbers numbers(machine);
  for (const std::size_t n : {1, 7, 100003}) {
    CAPTURE(n);
    // Whole numbers below 256 are exact in both.
    std::vector<float> to(n), from(n), sum(n);
    std::vector<std::uint16_t> to16(n), from16(n), sum16(n);
    for (std::size_t i = 0; i < n; ++i) {
      to[i] = float(i % 97), from[i] = float(i % 31), sum[i] = to[i] + from[i];
      to16[i] = to_bf16(to[i]), from16[i] = to_bf16(from[i]), sum16[i] = to_bf16(sum[i]);
    }
    float* const wide = numbers.make(to);
    device.accumulate(Precision::fp32, address(wide), address(numbers.make(from)), std::int64_t(n), numbers.stream());
    CHECK(numbers.at(wide, n) == sum);
    std::uint16_t* const narrow = numbers.make(to16);
    device.accumulate(Precision::bf16, address(narrow), address(numbers.make(from16)), std::int64_t(n),
                      numbers.stream());
    CHECK(numbers.at(narrow, n) == sum16);
  }
}

TEST_CASE("a recording does nothing until it is replayed, and then all of it, each time") {
  Machine machine;
  gpu::Device& device = machine.device();
  Numbers numbers(machine);
  std::int64_t* const n = numbers.make<std::int64_t>({0});
  std::int64_t* const beside = numbers.make<std::int64_t>({0});
  std::int64_t* const given = numbers.make<std::int64_t>({0});
  const StreamId main = device.make_stream(), branch = device.make_stream();
  const EventId begin = device.make_event(), end = device.make_event(), joined = device.make_event();
  const Time lasts = seconds(.002);
  std::int64_t source = 41;
  device.begin_recording(main);
  device.record(begin, main);
  device.wait(branch, begin);
  device.count(beside, 10, branch);
  device.record(joined, branch);
  device.copy(given, &source, Bytes(8), Direction::to_device, main);
  device.spin(lasts, main);
  device.count(given, 1, main);
  device.count(n, 1, main);
  device.wait(main, joined);
  device.record(end, main);
  const gpu::RecordingId recording = device.end_recording(main);
  source = 0;
  machine.finish(main);
  CHECK(numbers.number(n) == 0);
  CHECK(numbers.number(beside) == 0);
  for (int times = 1; times <= 5; ++times) {
    CAPTURE(times);
    device.replay(recording, main);
    machine.finish(main);
    CHECK(numbers.number(n) == times);
    CHECK(numbers.number(beside) == 10 * times);
    CHECK(numbers.number(given) == 42);  // copied again, then counted once
    CHECK(device.between(begin, end) >= lasts - seconds(2e-6));
    CHECK(device.between(begin, end) < seconds(5));
  }
  // What comes after a replay on its stream comes after all of it.
  device.replay(recording, main);
  device.count(n, 100, main);
  machine.finish(main);
  CHECK(numbers.number(n) == 106);
}

TEST_CASE("partitions: streams of each work, beside each other") {
  for (const std::size_t parts : {2, 4}) {
    CAPTURE(parts);
    Machine machine;
    gpu::Device& device = machine.device();
    const std::vector<int> sizes = device.partition(parts);
    REQUIRE(sizes.size() == parts);
    CHECK(std::all_of(sizes.begin(), sizes.end(), [&](int size) { return size > 0 && size == sizes[0]; }));
    CHECK(std::accumulate(sizes.begin(), sizes.end(), 0) <= device.facts().multiprocessors);
    std::printf("%zu partitions of %d multiprocessors\n", parts, sizes[0]);
    Numbers numbers(machine);
    std::int64_t* const n = numbers.make(std::vector<std::int64_t>(parts, 0));
    std::vector<StreamId> streams;
    std::vector<EventId> ends;
    for (std::size_t i = 0; i < parts; ++i)
      streams.push_back(device.make_stream(i)), ends.push_back(device.make_event());
    for (std::size_t i = 0; i < parts; ++i) device.count(n + i, 0, streams[i]);  // loads the kernels
    for (const StreamId stream : streams) machine.finish(stream);
    const Time lasts = seconds(.05);
    const EventId begin = device.make_event();
    device.record(begin, streams[0]);
    for (std::size_t i = 1; i < parts; ++i) device.wait(streams[i], begin);
    for (std::size_t i = 0; i < parts; ++i) {
      device.spin(lasts, streams[i]);
      device.count(n + i, std::int64_t(i) + 1, streams[i]);
      device.record(ends[i], streams[i]);
    }
    Time last;
    for (std::size_t i = 0; i < parts; ++i) {
      machine.finish(streams[i]);
      last = std::max(last, device.between(begin, ends[i]));
    }
    for (std::size_t i = 0; i < parts; ++i) CHECK(numbers.at(n, parts)[i] == std::int64_t(i) + 1);
    CHECK(last >= lasts - seconds(2e-6));
    // One after the other they would take `parts` times as long; the stand-in does that.
    if (is_real()) CHECK(last * 2 < lasts * 3);
  }
  Machine machine;
  CHECK_THROWS_AS(machine.device().partition(1000), MachineError);
}

TEST_CASE("a recording stays in the partitions that it was made in") {
  if (!is_real()) return;  // the stand-in has no multiprocessors
  Machine machine;
  gpu::Device& device = machine.device();
  REQUIRE(device.partition(4).size() == 4);
  Numbers numbers(machine);
  const StreamId whole = device.make_stream(0), part = device.make_stream(3);
  // More blocks than a partition holds, and as many as the shape asks for: with all multiprocessors it would take a
  // quarter of the time.
  const std::int64_t heads = 16, tokens = 2048, size = 128;
  kernels::Call call;
  call.kernel = {KernelKind::attention, {1, heads, tokens, size, 1}, {}, Precision::bf16};
  const auto needed = operand_elements(call.kernel, 0);
  for (std::size_t i = 0; i < needed.count; ++i)
    call.operands[i] = address(numbers.make(std::vector<float>(std::size_t(needed.elements[i]), 0)));
  const EventId begin = device.make_event(), end = device.make_event();
  const auto timed = [&](const auto& queue, StreamId on) {
    Time least = seconds(1e3);
    for (int i = 0; i < 5; ++i) {
      device.record(begin, on), queue(), device.record(end, on);
      machine.finish(on);
      least = std::min(least, device.between(begin, end));
    }
    return least;
  };
  const Time direct = timed([&] { device.perform(call, part); }, part);
  const EventId fork = device.make_event(), join = device.make_event();
  device.begin_recording(whole);
  device.record(fork, whole);
  device.wait(part, fork);
  device.perform(call, part);
  device.record(join, part);
  device.wait(whole, join);
  const auto recording = device.end_recording(whole);
  const Time replayed = timed([&] { device.replay(recording, whole); }, whole);
  std::printf("attention in a partition: %.0f us queued, %.0f us recorded\n", to_seconds(direct) * 1e6,
              to_seconds(replayed) * 1e6);
  CHECK(replayed * 10 > direct * 9);
  CHECK(replayed * 10 < direct * 12);
}

TEST_CASE("a communicator of one: collectives are copies, and a message to oneself arrives") {
  Machine machine;
  gpu::Communicators& all = machine.communicators();
  Numbers numbers(machine);
  const auto line = all.join(all.make_id(), 1, 0, gpu::Traffic::collectives, seconds(20));
  const std::size_t n = 1000;
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.f);
  std::vector<std::uint16_t> narrow(n);
  for (std::size_t i = 0; i < n; ++i) narrow[i] = to_bf16(float(i % 100));
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    CAPTURE(int(kind));
    float* const out = numbers.make(std::vector<float>(n, 0));
    line->collective(kind, Precision::fp32, address(numbers.make(values)), address(out), std::int64_t(n),
                     numbers.stream());
    CHECK(numbers.at(out, n) == values);
    std::uint16_t* const out16 = numbers.make(std::vector<std::uint16_t>(n, 0));
    line->collective(kind, Precision::bf16, address(numbers.make(narrow)), address(out16), std::int64_t(n),
                     numbers.stream());
    CHECK(numbers.at(out16, n) == narrow);
  }
  float* const into = numbers.make(std::vector<float>(n, 0));
  float* const from = numbers.make(values);
  all.begin_group();
  line->send(address(from), bytes(4 * n), 0, numbers.stream());
  line->receive(address(into), bytes(4 * n), 0, numbers.stream());
  all.end_group();
  CHECK(numbers.at(into, n) == values);
  CHECK_FALSE(line->failure());
}

TEST_CASE("calls of a communicator of one are recorded, those that queue nothing too") {
  if (!is_real()) return;  // what is asked here is whether NCCL and the driver can
  Machine machine;
  gpu::Device& device = machine.device();
  gpu::Communicators& all = machine.communicators();
  Numbers numbers(machine);
  const auto alone = all.join(all.make_id(), 1, 0, gpu::Traffic::collectives, seconds(20));
  const std::size_t n = 1000;
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.f);
  float* const from = numbers.make(values);
  float* const summed = numbers.make(std::vector<float>(n, 0));
  float* const sent = numbers.make(std::vector<float>(n, 0));
  const StreamId stream = numbers.stream();
  const auto reduce = [&](float* out) {
    alone->collective(CollectiveKind::all_reduce, Precision::fp32, address(from), address(out), std::int64_t(n),
                      stream);
  };
  const auto send = [&] {
    all.begin_group();
    alone->send(address(from), bytes(4 * n), 0, stream);
    alone->receive(address(sent), bytes(4 * n), 0, stream);
    all.end_group();
  };
  reduce(summed), send();  // connects
  machine.finish(stream);
  all.connected();
  const auto recorded = [&](const auto& call) {
    device.begin_recording(stream);
    for (int i = 0; i < 8; ++i) call();
    return device.end_recording(stream);
  };
  const auto reduces = recorded([&] { reduce(summed); });
  const auto nothing = recorded([&] { reduce(from); });
  const auto sends = recorded(send);
  std::vector<float> other(n, 3);
  device.copy(address(from), other.data(), bytes(4 * n), Direction::to_device, stream);
  for (int times = 0; times < 3; ++times)
    for (const auto recording : {reduces, nothing, sends}) device.replay(recording, stream);
  CHECK(numbers.at(summed, n) == other);
  CHECK(numbers.at(sent, n) == other);
  CHECK(numbers.at(from, n) == other);
  CHECK_FALSE(alone->failure());
}

TEST_CASE("a member whose peer does not come gives up, and so do two on one GPU") {
  Machine machine;
  CHECK_THROWS_AS(
      machine.communicators().join(machine.communicators().make_id(), 2, 0, gpu::Traffic::messages, seconds(.5)),
      MachineError);
  if (!is_real()) return;  // the stand-in's communicators do not care where their members are
  Machine other;
  const std::string id = machine.communicators().make_id();
  const auto says = [&](Machine& one, int index) -> std::string {
    try {
      one.communicators().join(id, 2, index, gpu::Traffic::messages, seconds(20));
      return "";
    } catch (const MachineError& error) {
      return error.what();
    }
  };
  auto second = std::async(std::launch::async, says, std::ref(other), 1);
  const std::string first_says = says(machine, 0), second_says = second.get();
  std::printf("two members on one GPU: %s\n", first_says.c_str());
  CHECK_FALSE(first_says.empty());
  CHECK_FALSE(second_says.empty());
}

TEST_CASE("memory that the GPU has not got, and a product it does not know, are refused; it works on") {
  if (!is_real()) return;  // the stand-in has the host's memory
  Machine machine;
  gpu::Device& device = machine.device();
  Numbers numbers(machine);
  std::int64_t* const n = numbers.make<std::int64_t>({1});
  const Bytes too_much = device.facts().memory + device.facts().memory;
  CHECK_THROWS_AS(device.allocate(device.make_pool(), too_much, numbers.stream()), MachineError);
  kernels::Call call;
  call.kernel = {KernelKind::linear, {16, 16, 16}, {}, Precision::fp16};
  CHECK_THROWS_AS(device.perform(call, numbers.stream()), MachineError);
  device.count(n, 1, numbers.stream());
  CHECK(numbers.number(n) == 2);
}

TEST_CASE("a kernel that fails is told as MachineError") {
  if (!is_real()) return;  // the stand-in would take the process with it
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  CHECK(std::system(("'" + self + "' --illegal-access").c_str()) == 0);
}

TEST_CASE("the profiler sees the kernels between observe and observed, or says why not") {
  Machine machine;
  gpu::Device& device = machine.device();
  Numbers numbers(machine);
  std::int64_t* const n = numbers.make<std::int64_t>({0});
  device.count(n, 1, numbers.stream());
  device.observe();
  for (int i = 0; i < 3; ++i) device.count(n, 1, numbers.stream());
  const gpu::DeviceReport activity = device.observed();
  if (!activity.unavailable.empty()) {
    std::printf("no profiler: %s\n", activity.unavailable.c_str());
    CHECK(activity.kernels == 0);
  } else {
    CHECK(activity.kernels == 3);
    CHECK(activity.kernel_time > Time());
  }
}

}  // namespace rehearsal::test
