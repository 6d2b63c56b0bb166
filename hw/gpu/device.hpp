// The part of a GPU runtime that this program uses: streams, events, memory, kernels. Implemented by hw/cuda with the
// CUDA runtime, and by the tests with a recorder that executes on the host and checks the rules.
//
// Work is queued on streams: a call returns at once, and a stream runs its work in order. Streams synchronise through
// events only: wait() makes later work of a stream wait for the last record() of the event that preceded the call;
// without one, wait() does nothing. Calls come from one thread. When the device fails, every call throws MachineError
// with the device's own words. Objects made by a Device live as long as the Device.
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
inline constexpr std::size_t kAlignment = 256;  // of device memory blocks, bytes
using Address = std::byte*;                     // device memory: only a Device may dereference it

struct DeviceFacts {
  std::string name;        // "NVIDIA H200"
  std::string capability;  // "9.0"
  int multiprocessors = 0;
  std::size_t connections = SIZE_MAX;  // hardware queues; further streams share one and wait for each other
  Bytes memory, free;
  std::string driver, runtime;                                 // versions
  std::vector<std::pair<std::string, std::string>> libraries;  // name, version
};

enum class Direction : std::uint8_t { within_device, to_device, to_host };

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  // Device memory that libraries use for our calls, outside all pools; so far: it grows with the streams used.
  virtual Bytes workspace() const { return {}; }

  // Splits the SMs into `parts` equal partitions, before any stream is made; returns the number of SMs of each. Throws
  // MachineError when the device cannot give that many partitions.
  virtual std::vector<int> partition(std::size_t parts) = 0;
  virtual StreamId make_stream(std::size_t part = 0) = 0;

  virtual EventId make_event() = 0;
  virtual void record(EventId event, StreamId stream) = 0;
  virtual void wait(StreamId stream, EventId event) = 0;
  virtual bool reached(EventId event) = 0;             // its last record; true when there was none
  virtual Time between(EventId from, EventId to) = 0;  // both must be reached

  // Stream-ordered memory: work queued later on the stream may use the block, and free() takes effect in stream order.
  // Blocks are aligned to kAlignment.
  virtual PoolId make_pool() = 0;
  virtual Address allocate(PoolId pool, Bytes size, StreamId stream) = 0;
  virtual void free(Address block, StreamId stream) = 0;
  virtual Bytes high_water(PoolId pool) = 0;            // as counted by the device's allocator, with its rounding
  virtual std::span<std::byte> pinned(Bytes size) = 0;  // host memory for copies that do not block

  // Copying to_device, the host memory may be reused when the call returns; copying to_host, it must be pinned, and is
  // valid when the stream has passed the copy.
  virtual void copy(void* to, const void* from, Bytes size, Direction direction, StreamId stream) = 0;
  virtual void fill(Address to, std::byte value, Bytes size, StreamId stream) = 0;

  // Prepares such a call, so that its first launch neither loads code nor allocates: either may wait for all work in
  // progress, even for a message whose peer waits for us. Operands need no memory; only their alignment matters.
  virtual void load(const kernels::Call& call, StreamId stream) = 0;
  virtual void perform(const kernels::Call& call, StreamId stream) = 0;
  virtual void spin(Time duration, StreamId stream) = 0;  // keeps the stream busy
  virtual void accumulate(Precision precision, Address to, const std::byte* from, std::int64_t elements,
                          StreamId stream) = 0;                                      // to += from
  virtual void count(std::int64_t* number, std::int64_t more, StreamId stream) = 0;  // *number += more

  // Records what is queued on `stream`, and on streams that wait for it, without running it; replay() runs it all. When
  // the recording ends, all streams must have rejoined `stream` through events, and the blocks freed in it must be
  // exactly those allocated in it. A replay runs after earlier work on its stream, and after earlier replays.
  virtual void begin_recording(StreamId stream) = 0;
  virtual RecordingId end_recording(StreamId stream) = 0;
  virtual void replay(RecordingId recording, StreamId stream) = 0;

  // The device's own report: the profiler's records of kernels and copies between observe() and observed(), which may
  // be unavailable, and the memory taken since the device was opened.
  virtual void observe() = 0;
  virtual DeviceReport observed() = 0;
};

}  // namespace rehearsal::gpu
