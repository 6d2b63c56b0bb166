#include "calibrate/tiers.hpp"

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>

#include "cpu/host_adam.hpp"
#include "dispatch/clock.hpp"
#include "tiers/storage.hpp"

namespace rehearsal::calibrate {
namespace {

// At least a clock tick.
Time lasts(const std::function<void()>& work) {
  const Time begin = dispatch::now();
  work();
  return std::max(dispatch::now() - begin, picoseconds(1000));
}

// Touches every page before timing; the content is neither zeros nor the same page repeated.
void fill(std::span<std::byte> memory) {
  for (std::size_t i = 0; i < memory.size(); i++) memory[i] = std::byte(i * 131 >> 3);
}

}  // namespace

std::vector<CopyTime> time_heap_copies(const TierSettings& settings) {
  constexpr std::int64_t kHeap = 32 << 20;  // larger than the caches of a core; copies rotate in it
  const int rounds = settings.quick ? 4 : 12;
  const std::vector<std::int64_t> sizes{64 << 10, 1 << 20, 16 << 20};
  std::vector<std::vector<std::vector<Time>>> times(settings.threads, std::vector<std::vector<Time>>(sizes.size()));
  std::vector<std::exception_ptr> errors(settings.threads);
  std::barrier together(std::ptrdiff_t(settings.threads));
  const auto rank = [&](unsigned r) {
    try {
      tiers::HeapStore own, beside;
      const auto mine = own.memory(own.allocate(Bytes(kHeap)));
      const auto region = beside.allocate(Bytes(kHeap));
      fill(mine), fill(beside.memory(region));
      together.arrive_and_wait();
      for (std::size_t s = 0; s < sizes.size(); s++)
        for (std::int64_t i = 0; i < rounds; i++) {
          const std::int64_t at = i * sizes[s] % kHeap;
          const auto part = mine.subspan(std::size_t(at), std::size_t(sizes[s]));
          times[r][s].push_back(lasts([&] { beside.wait(beside.write(region, part, Bytes(at))); }));
          times[r][s].push_back(lasts([&] { beside.wait(beside.read(region, part, Bytes(at))); }));
        }
    } catch (...) {
      errors[r] = std::current_exception();
      together.arrive_and_drop();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned r = 0; r < settings.threads; r++) threads.emplace_back(rank, r);
  }
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
  std::vector<CopyTime> result;
  for (std::size_t s = 0; s < sizes.size(); s++) {
    std::vector<Time> all;
    for (const auto& of_rank : times) all.insert(all.end(), of_rank[s].begin(), of_rank[s].end());
    result.push_back({Bytes(sizes[s]), spread(all)});
  }
  return result;
}

AdamTime time_host_adam(const TierSettings& settings, bool stored) {
  const std::int64_t n = settings.quick ? 2 << 20 : 8 << 20;  // 56 MiB or more: cold again after each update
  const auto size = static_cast<std::size_t>(n);
  std::vector<float> gradient(size), parameters(size, .5f), m(size), v(size);
  std::vector<std::uint16_t> rounded(stored ? size : 0);
  for (std::size_t i = 0; i < gradient.size(); i++) gradient[i] = float(i % 1021) * 1e-3f - .5f;
  cpu::HostAdam call{n, 0, gradient.data(), parameters.data(), m.data(), v.data(), stored ? rounded.data() : nullptr};
  std::vector<Time> times;
  for (int i = 0; i < (settings.quick ? 5 : 10); i++, call.step++) {
    const Time time = lasts([&] { cpu::host_adam(call, {}, settings.threads); });
    if (i > 0) times.push_back(time);  // the first one warms up
  }
  return {n, Bytes(cpu::host_adam_bytes(stored)), spread(times)};
}

DiskProbe probe_disk(const TierSettings& settings, bool direct) {
  constexpr std::int64_t kRoom = 64 << 20;
  const Time start = dispatch::now();
  const Time enough = seconds(settings.quick ? .05 : .15), all = seconds(settings.quick ? 1 : 2);
  tiers::FileOptions options;
  if (!settings.directory.empty()) options.directory = settings.directory;
  options.whose = "calibrate", options.capacity = Bytes(kRoom), options.direct = direct;
  tiers::FileStore file(options);
  tiers::HeapStore heap;
  const auto memory = heap.memory(heap.allocate(Bytes(kRoom)));
  const auto region = file.allocate(Bytes(kRoom));
  fill(memory);
  // Blocks that were never written would be read without disk access.
  const auto whole = lasts([&] { file.wait(file.write(region, memory)); });
  DiskProbe probe{file.means(), false, {}};
  const auto several = [&](std::int64_t size, const auto& copy) {
    std::vector<Time> times;
    Time spent;
    for (std::int64_t i = 0; i < 16 && (i == 0 || spent < enough); i++) {
      const std::int64_t at = i * size % kRoom;
      times.push_back(lasts([&] { copy(memory.subspan(std::size_t(at), std::size_t(size)), Bytes(at)); }));
      spent += times.back();
    }
    return spread(times);
  };
  for (const std::int64_t size : {std::int64_t(64 << 10), std::int64_t(1 << 20), std::int64_t(8 << 20), kRoom}) {
    // The time of the largest copy so far decides whether another size fits into the time.
    if (!probe.times.empty() && dispatch::now() - start + whole + whole > all) break;
    DiskTime time{Bytes(size), {}, {}};
    time.write = several(size, [&](auto part, Bytes at) { file.wait(file.write(region, part, at)); });
    time.read = several(size, [&](auto part, Bytes at) { file.wait(file.read(region, part, at)); });
    probe.times.push_back(time);
  }
  probe.page_cache = file.cached() * 2 > Bytes(kRoom);
  return probe;
}

}  // namespace rehearsal::calibrate
