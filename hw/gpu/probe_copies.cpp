#include "gpu/probe_copies.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "dispatch/clock.hpp"

namespace rehearsal::gpu {
namespace {

// Sizes in factors of four, and some in between, which are held out.
struct Size {
  Bytes size;
  bool held_out = false;
};
std::vector<Size> sizes(Bytes from, Bytes to) {
  std::vector<Size> all;
  for (std::int64_t size = from.count(); size <= to.count(); size *= 4) {
    all.push_back({Bytes(size)});
    if (size / 4 * 10 <= to.count()) all.push_back({Bytes(size / 4 * 10 / 512 * 512), true});  // 2.5 times
  }
  return all;
}

double ratio(Time a, Time b) { return double(a.count()) / double(b.count()); }

// Copies between device and host as recordings: only a recorded copy reads pinned memory without a copy by the host.
// For a small size a recording has several copies, each with its own memory.
class HostCopies {
 public:
  HostCopies(ProbeBench& bench, Bytes largest) : bench_(bench), values_(std::size_t(largest.count()), std::byte{0x3f}) {
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < values_.size(); i += 2)  // bf16 without NaN
      state = state * 6364136223846793005u + 1442695040888963407u, values_[i] = std::byte(state >> 56);
  }

  std::int64_t per_recording(Bytes size) const {
    return std::clamp<std::int64_t>((std::int64_t{16} << 20) / size.count(), 1, 16);
  }
  void queue(Bytes size, Direction direction, StreamId stream) {
    bench_.device().replay(recording(size, direction, stream), stream);
  }
  LaunchTime time(Bytes size, Direction direction) {
    const auto t = bench_.time(1, [&](std::size_t, std::int64_t) { queue(size, direction, bench_.stream(0)); });
    return divided(t, per_recording(size));
  }
  // Records it ahead, so that queuing it does not have to wait.
  void prepare(Bytes size, Direction direction, StreamId stream) { recording(size, direction, stream); }

 private:
  RecordingId recording(Bytes size, Direction direction, StreamId stream) {
    const auto known = recordings_.find({size, direction, stream});
    if (known != recordings_.end()) return known->second;
    Device& device = bench_.device();
    bench_.drain_all();
    std::vector<std::byte*> pinned;
    if (direction == Direction::to_host)
      for (std::int64_t i = 0; i < per_recording(size); ++i) pinned.push_back(device.pinned(size).data());
    const Address outgoing = bench_.arena() + bench_.arena_size().count() / 2;
    device.begin_recording(stream);
    for (std::int64_t i = 0; i < per_recording(size); ++i) {
      if (direction == Direction::to_device)
        device.copy(bench_.arena() + i * size.count(), values_.data(), size, direction, stream);
      else
        device.copy(pinned[std::size_t(i)], outgoing + i * size.count(), size, direction, stream);
    }
    return recordings_[{size, direction, stream}] = device.end_recording(stream);
  }

  ProbeBench& bench_;
  std::vector<std::byte> values_;
  std::map<std::tuple<Bytes, Direction, StreamId>, RecordingId> recordings_;
};

// Both directions at once, started together. When the first ends, up to half of the slower one's work may be left, so
// each is timed to its own end.
double duplex(ProbeBench& bench, HostCopies& copies, Bytes size, Time down, Time up) {
  Device& device = bench.device();
  const EventId go = device.make_event(), down_over = device.make_event(), up_over = device.make_event();
  std::vector<double> factors;
  constexpr int kRounds = 5, kCopies = 4;
  copies.prepare(size, Direction::to_device, bench.stream(0));
  copies.prepare(size, Direction::to_host, bench.other());
  for (int round = 0; round < kRounds; ++round) {
    bench.drain_all();
    device.spin(seconds(100e-6), bench.stream(0));
    device.record(go, bench.stream(0));
    device.wait(bench.other(), go);
    for (int i = 0; i < kCopies; ++i) {
      copies.queue(size, Direction::to_device, bench.stream(0));
      copies.queue(size, Direction::to_host, bench.other());
    }
    device.record(down_over, bench.stream(0)), device.record(up_over, bench.other());
    bench.drain_all();
    const Time both = std::max(device.between(go, down_over), device.between(go, up_over));
    // Bytes of both directions / time of both, relative to the sum of the rates alone.
    const double n = double(kCopies * copies.per_recording(size));
    factors.push_back(2 * n / double(both.count()) / (1 / double(down.count()) + 1 / double(up.count())));
  }
  std::ranges::sort(factors);
  return factors[factors.size() / 2];
}

Kernel product(std::int64_t n) { return {KernelKind::linear, {n, n, n}, {}, Precision::bf16}; }

}  // namespace

void probe_launches(ProbeBench& bench, Probe& probe) {
  Device& device = bench.device();
  const StreamId stream = bench.stream(0);
  auto* const number = reinterpret_cast<std::int64_t*>(bench.arena());
  bench.drain_all();
  device.fill(bench.arena(), std::byte{0}, Bytes(sizeof *number), stream);
  const auto empty = [&](std::size_t, std::int64_t) { device.count(number, 1, stream); };

  constexpr int kLaunches = 500, kRounds = 9, kNodes = 200;
  std::vector<Time> host;
  for (int round = 0; round < kRounds; ++round) {
    bench.drain_all();
    const Time before = dispatch::now();
    for (int i = 0; i < kLaunches; ++i) empty(0, i);
    host.push_back(Time((dispatch::now() - before).count() / kLaunches));
  }
  probe.launch_host = launch_time(std::move(host));
  probe.launch_stream = bench.time(1, empty);

  bench.drain_all();
  device.begin_recording(stream);
  for (int i = 0; i < kNodes; ++i) empty(0, i);
  const RecordingId nodes = device.end_recording(stream);
  probe.launch_graph = divided(bench.time(1, [&](std::size_t, std::int64_t) { device.replay(nodes, stream); }), kNodes);

  const EventId before = device.make_event(), after = device.make_event();
  const auto task = [&](std::size_t part, std::int64_t round) {
    device.record(before, stream);
    empty(part, round);
    device.record(after, stream);
  };
  const auto less = [](const LaunchTime& t, const LaunchTime& alone) {
    const auto one = [](Time a, Time b) { return std::max(a - b, picoseconds(1000)); };
    return LaunchTime{one(t.p10, alone.p10), one(t.p50, alone.p50), one(t.p90, alone.p90)};
  };
  probe.between_tasks = less(bench.time(1, task), *probe.launch_stream);

  bench.drain_all();
  device.begin_recording(stream);
  for (int i = 0; i < kNodes; ++i) task(0, i);
  const RecordingId tasks = device.end_recording(stream);
  const auto replayed = bench.time(1, [&](std::size_t, std::int64_t) { device.replay(tasks, stream); });
  probe.between_tasks_graph = less(divided(replayed, kNodes), *probe.launch_graph);
}

void probe_copies(ProbeBench& bench, const ProbeOptions& options, Probe& probe) {
  Device& device = bench.device();
  const StreamId stream = bench.stream(0);
  const Bytes half(bench.arena_size().count() / 2);
  const Bytes largest = std::min(options.largest_copy, half);
  constexpr std::int64_t kTurns = 8;
  bench.prepare(product(16), 1);  // fills at least the first part of the arena with numbers

  options.say("copies within the device");
  for (const auto& [size, held_out] : sizes(Bytes(4 << 10), largest)) {
    const std::int64_t turns = std::clamp<std::int64_t>(half.count() / size.count(), 1, kTurns);
    const auto time = bench.time(1, [&, size = size](std::size_t, std::int64_t round) {
      const std::int64_t at = round % turns * size.count();
      device.copy(bench.arena() + half.count() + at, bench.arena() + at, size, Direction::within_device, stream);
    });
    probe.device_copy.push_back({size, time, held_out});
  }

  options.say("copies between device and host");
  HostCopies copies(bench, largest);
  for (const auto& [size, held_out] : sizes(Bytes(4 << 10), largest)) {
    if (copies.per_recording(size) * size.count() > half.count()) continue;
    probe.to_device.push_back({size, copies.time(size, Direction::to_device), held_out});
    probe.to_host.push_back({size, copies.time(size, Direction::to_host), held_out});
  }
  const Bytes beside = probe.to_device.back().size;
  probe.duplex = duplex(bench, copies, beside, probe.to_device.back().time.p50, probe.to_host.back().time.p50);

  options.say("copies beside matrix products");
  // The products use the first half of the arena, the copies the rest.
  const Bytes moved = std::min({options.beside_copy, largest, Bytes(half.count() / 2)});
  if (bench.prepare(product(options.gemm), 1, half)) return;
  const Address behind = bench.arena() + half.count();
  const auto gemm = [&](StreamId on, std::int64_t round) { device.perform(bench.call(0, round), on); };
  const auto gemm_here = [&](std::size_t, std::int64_t round) { gemm(stream, round); };
  const auto gemm_there = [&](std::int64_t round) { gemm(bench.other(), round); };
  const auto within = [&](StreamId on) {
    device.copy(behind + moved.count(), behind, moved, Direction::within_device, on);
  };
  const auto to_host = [&](StreamId on) { copies.queue(moved, Direction::to_host, on); };
  for (const StreamId on : {stream, bench.other()}) copies.prepare(moved, Direction::to_host, on);
  const Time alone = bench.time(1, gemm_here).p50;
  const auto both = [&](const auto& copy, Interference& found) {
    const Time copy_alone = bench.time(1, [&](std::size_t, std::int64_t) { copy(stream); }).p50;
    const auto gemm_beside = bench.time_beside(gemm_here, [&](std::int64_t) { copy(bench.other()); });
    const auto copy_beside = bench.time_beside([&](std::size_t, std::int64_t) { copy(stream); }, gemm_there);
    if (gemm_beside) found.gemm = ratio(gemm_beside->p50, alone);
    if (copy_beside) found.copy = ratio(copy_beside->p50, copy_alone);
  };
  both(within, probe.with_device_copy);
  both(to_host, probe.with_host_copy);
}

void probe_memory_bound(ProbeBench& bench, const ProbeOptions& options, Probe& probe) {
  options.say("kernels that are bound by memory");
  const Bytes least(64 << 10), most(bench.arena_size().count() / 2);
  for (const auto& [size, held_out] : sizes(least, std::min(most, Bytes(std::int64_t{1} << 30)))) {
    const std::int64_t elements = size.count() / 12;  // two read, one written
    const Kernel add{KernelKind::add, {elements}, {}, Precision::fp32};
    if (bench.prepare(add, 1)) continue;
    const auto time = bench.time(
        1, [&](std::size_t, std::int64_t round) { bench.device().perform(bench.call(0, round), bench.stream(0)); });
    probe.memory_bound.push_back({add.traffic(), time, held_out});
  }
}

void probe_pairs(ProbeBench& bench, const ProbeOptions& options, Probe& probe) {
  options.say("kernels that find what others wrote");
  Device& device = bench.device();
  const StreamId stream = bench.stream(0);
  const std::int64_t width = options.gemm;
  for (const std::int64_t rows : {width / 16, width / 4, width, 2 * width}) {
    PairTime pair{.product = {KernelKind::linear, {rows, width, width}, {}, Precision::bf16},
                  .activation = {KernelKind::gelu, {rows * width}, {}, Precision::bf16}};
    if (bench.prepare(pair.activation, 1)) continue;
    const auto alone = [&](std::size_t, std::int64_t round) { device.perform(bench.call(0, round), stream); };
    pair.second = bench.time(1, alone);
    const Bytes half(bench.arena_size().count() / 2);
    if (bench.prepare(pair.product, 1, half)) continue;
    pair.first = bench.time(1, alone);
    pair.both = bench.time(1, [&](std::size_t, std::int64_t round) {
      const kernels::Call product = bench.call(0, round);
      kernels::Call activation;
      activation.kernel = pair.activation;
      activation.operands = {product.operands[2], bench.arena() + half.count()};
      device.perform(product, stream);
      device.perform(activation, stream);
    });
    probe.pairs.push_back(pair);
  }
}

}  // namespace rehearsal::gpu
