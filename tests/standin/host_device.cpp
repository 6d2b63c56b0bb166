#include "standin/host_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "kernels/host.hpp"

namespace rehearsal::standin {
namespace {

constexpr int kMultiprocessors = 132, kPartition = 8;
constexpr std::int64_t kMemory = 16 << 20;  // little, so that a probe's copies are small

}  // namespace

HostDevice::HostDevice() {
  facts_.name = "a stand-in for a GPU", facts_.capability = "0.0", facts_.multiprocessors = kMultiprocessors;
  facts_.memory = facts_.free = Bytes(kMemory);  // of the host: allocations beyond it are not refused
}

std::vector<int> HostDevice::partition(std::size_t parts) {
  if (parts > kMultiprocessors / kPartition)
    throw MachineError(fmt::format("{} virtual stages were asked for, and {} partitions of {} multiprocessors are all",
                                   parts, kMultiprocessors / kPartition, kPartition));
  return std::vector<int>(parts, kMultiprocessors / static_cast<int>(parts) / kPartition * kPartition);
}

void HostDevice::call(std::function<void()> effect) {
  if (recording_) return recordings_.back().push_back(std::move(effect));
  effect();
}

gpu::EventId HostDevice::make_event() {
  events_.push_back({});
  return gpu::EventId(events_.size() - 1);
}

void HostDevice::record(gpu::EventId event, gpu::StreamId) {
  call([this, event] { events_[event.index()] = dispatch::now(); });
}

gpu::PoolId HostDevice::make_pool() {
  pools_.push_back({});
  return gpu::PoolId(pools_.size() - 1);
}

HostDevice::Memory HostDevice::memory(Bytes size) {
  Memory bytes(static_cast<std::byte*>(std::calloc(std::size_t(std::max<std::int64_t>(size.count(), 1)), 1)));
  if (!bytes) throw MachineError(fmt::format("no memory for {} bytes", size.count()));
  return bytes;
}

gpu::Address HostDevice::allocate(gpu::PoolId id, Bytes size, gpu::StreamId) {
  Memory bytes = memory(size);
  const gpu::Address address = bytes.get();
  blocks_.emplace(address, Block{std::move(bytes), size, id.index()});
  Pool& pool = pools_[id.index()];
  pool.live += size, pool.peak = std::max(pool.peak, pool.live);
  return address;
}

void HostDevice::free(gpu::Address address, gpu::StreamId) {
  const auto block = blocks_.find(address);
  INVARIANT(block != blocks_.end(), "a block is freed once");
  pools_[block->second.pool].live -= block->second.size;
  if (!recording_) blocks_.erase(block);  // a recording uses its blocks again
}

std::span<std::byte> HostDevice::pinned(Bytes size) {
  return {pinned_.emplace_back(memory(size)).get(), static_cast<std::size_t>(size.count())};
}

void HostDevice::copy(void* to, const void* from, Bytes size, gpu::Direction direction, gpu::StreamId) {
  if (recording_ && direction == gpu::Direction::to_device) {  // the host may reuse it before the first replay
    const auto* bytes = static_cast<const std::byte*>(from);
    return call([to, kept = std::vector<std::byte>(bytes, bytes + size.count())] {
      std::memcpy(to, kept.data(), kept.size());
    });
  }
  call([=] { std::memmove(to, from, static_cast<std::size_t>(size.count())); });
}

void HostDevice::fill(gpu::Address to, std::byte value, Bytes size, gpu::StreamId) {
  call([=] { std::fill_n(to, size.count(), value); });
}

void HostDevice::perform(const kernels::Call& given, gpu::StreamId) {
  call([given] { kernels::perform_on_host(given); });
}

void HostDevice::spin(Time duration, gpu::StreamId) {
  call([duration] { dispatch::sleep_until(dispatch::now() + duration); });
}

void HostDevice::accumulate(Precision precision, gpu::Address to, const std::byte* from, std::int64_t elements,
                            gpu::StreamId) {
  call([=] { kernels::accumulate_on_host(precision, to, from, elements); });
}

void HostDevice::count(std::int64_t* number, std::int64_t more, gpu::StreamId) {
  call([=] { *number += more; });
}

gpu::RecordingId HostDevice::end_recording(gpu::StreamId) {
  recording_ = false;
  return gpu::RecordingId(recordings_.size() - 1);
}

void HostDevice::replay(gpu::RecordingId recording, gpu::StreamId) {
  for (const auto& effect : recordings_[recording.index()]) effect();
}

gpu::DeviceReport HostDevice::observed() {
  gpu::DeviceReport none;
  none.unavailable = "a stand-in has no profiler";
  return none;
}

}  // namespace rehearsal::standin
