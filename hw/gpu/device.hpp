// What this program asks of a GPU, and nothing else: streams, events, memory, kernels. hw/cuda answers with the CUDA
// runtime; the tests answer with a recorder that executes on the host and checks the rules.
//
// Work is queued on streams: a call returns at once, and one stream runs its work in order. Two streams know of each
// other through events alone: wait() makes what follows on a stream wait for the last record() of the event that was
// called before; without one it does nothing. Calls come from one thread. Everything throws MachineError with the
// device's own words when the device fails. What a Device made lives as long as the Device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/units.hpp"
#include "kernels/call.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::gpu {

using timeline::DeviceReport;
using StreamId = Id<struct StreamTag>;
using EventId = Id<struct EventTag>;
using PoolId = Id<struct PoolTag>;
using RecordingId = Id<struct RecordingTag>;
inline constexpr std::size_t kAlignment = 256;  // of blocks of device memory, bytes
using Address = std::byte*;                     // device memory: looked into by a Device alone

struct DeviceFacts {
  std::string name;        // "NVIDIA H200"
  std::string capability;  // "9.0"
  int multiprocessors = 0;
  std::size_t connections = SIZE_MAX;  // streams beyond so many share one, and wait for each other
  Bytes memory, free;
  std::string driver, runtime;                                 // versions
  std::vector<std::pair<std::string, std::string>> libraries;  // name, version
};

enum class Direction : std::uint8_t { within_device, to_device, to_host };

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  // Device memory that libraries use for our calls, outside of all pools. So far: it grows with the streams used.
  virtual Bytes workspace() const { return {}; }

  // Shares the multiprocessors out to `parts` partitions of equal size, before any stream is made; returns how many
  // each has. Throws MachineError when there are not that many partitions.
  virtual std::vector<int> partition(std::size_t parts) = 0;
  virtual StreamId make_stream(std::size_t part = 0) = 0;

  virtual EventId make_event() = 0;
  virtual void record(EventId event, StreamId stream) = 0;
  virtual void wait(StreamId stream, EventId event) = 0;
  virtual bool reached(EventId event) = 0;             // its last record; true when there was none
  virtual Time between(EventId from, EventId to) = 0;  // both reached

  // Memory in the order of a stream: what is queued on it later may use the block; free() takes effect when the stream
  // comes to it. Blocks are aligned to kAlignment.
  virtual PoolId make_pool() = 0;
  virtual Address allocate(PoolId pool, Bytes size, StreamId stream) = 0;
  virtual void free(Address block, StreamId stream) = 0;
  virtual Bytes high_water(PoolId pool) = 0;            // as the device's allocator counts, with its rounding
  virtual std::span<std::byte> pinned(Bytes size) = 0;  // of the host, reachable by copies that do not block

  // Host memory of to_device may be reused when the call returns; that of to_host must be pinned and is there when the
  // stream has come to it.
  virtual void copy(void* to, const void* from, Bytes size, Direction direction, StreamId stream) = 0;
  virtual void fill(Address to, std::byte value, Bytes size, StreamId stream) = 0;

  // Makes ready what such a call needs, so that its first launch neither loads code nor allocates: either may wait for
  // everything under way, and a message that is under way may wait for us. Operands lie nowhere; they tell their
  // alignment alone.
  virtual void load(const kernels::Call& call, StreamId stream) = 0;
  virtual void perform(const kernels::Call& call, StreamId stream) = 0;
  virtual void spin(Time duration, StreamId stream) = 0;  // keeps the stream busy
  virtual void accumulate(Precision precision, Address to, const std::byte* from, std::int64_t elements,
                          StreamId stream) = 0;                                      // to += from
  virtual void count(std::int64_t* number, std::int64_t more, StreamId stream) = 0;  // *number += more

  // Records what is queued on `stream`, and on streams that wait for it, without running it; replay() runs it all. All
  // streams must have joined `stream` again through events when the recording ends, and blocks that were allocated in
  // it are freed in it, and no others. A replay comes after what was queued on its stream, and after earlier ones.
  virtual void begin_recording(StreamId stream) = 0;
  virtual RecordingId end_recording(StreamId stream) = 0;
  virtual void replay(RecordingId recording, StreamId stream) = 0;

  // What the device says itself: the profiler's records of kernels and copies from observe() to observed(), which may
  // be unavailable, and the memory that has been taken since it was opened.
  virtual void observe() = 0;
  virtual DeviceReport observed() = 0;
};

}  // namespace rehearsal::gpu
