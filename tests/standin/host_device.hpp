// A GPU simulated by the host: work runs at once, in queue order, with the GPU's own kernels compiled for the host. It
// runs the program itself, with its processes, without a GPU; the recorder (tests/recorder) checks order.
#pragma once
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "gpu/device.hpp"

namespace rehearsal::standin {

class HostDevice : public gpu::Device {
 public:
  HostDevice();
  const gpu::DeviceFacts& facts() const override { return facts_; }
  std::vector<int> partition(std::size_t parts) override;
  gpu::StreamId make_stream(std::size_t) override { return gpu::StreamId(streams_++); }
  gpu::EventId make_event() override;
  void record(gpu::EventId event, gpu::StreamId stream) override;
  void wait(gpu::StreamId, gpu::EventId) override {}
  bool reached(gpu::EventId) override { return true; }
  Time between(gpu::EventId from, gpu::EventId to) override { return events_[to.index()] - events_[from.index()]; }
  gpu::PoolId make_pool() override;
  gpu::Address allocate(gpu::PoolId pool, Bytes size, gpu::StreamId stream) override;
  void free(gpu::Address block, gpu::StreamId stream) override;
  Bytes high_water(gpu::PoolId pool) override { return pools_[pool.index()].peak; }
  std::span<std::byte> pinned(Bytes size) override;
  void copy(void* to, const void* from, Bytes size, gpu::Direction direction, gpu::StreamId stream) override;
  void fill(gpu::Address to, std::byte value, Bytes size, gpu::StreamId stream) override;
  void load(const kernels::Call&, gpu::StreamId) override {}
  void perform(const kernels::Call& call, gpu::StreamId stream) override;
  void spin(Time duration, gpu::StreamId stream) override;
  void accumulate(Precision precision, gpu::Address to, const std::byte* from, std::int64_t elements,
                  gpu::StreamId stream) override;
  void count(std::int64_t* number, std::int64_t more, gpu::StreamId stream) override;
  void begin_recording(gpu::StreamId) override { recordings_.emplace_back(), recording_ = true; }
  gpu::RecordingId end_recording(gpu::StreamId) override;
  void replay(gpu::RecordingId recording, gpu::StreamId stream) override;
  void observe() override {}
  gpu::DeviceReport observed() override;

  // Runs the effect now, or at every replay.
  void call(std::function<void()> effect);

 protected:
  gpu::DeviceFacts facts_;
  std::vector<Time> events_;

 private:
  struct Pool {
    Bytes live, peak;
  };
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;  // zeroed; untouched pages cost nothing
  static Memory memory(Bytes size);
  struct Block {
    Memory bytes;
    Bytes size;
    std::size_t pool = 0;
  };
  std::size_t streams_ = 0;
  std::vector<Pool> pools_;
  std::map<gpu::Address, Block> blocks_;
  std::vector<Memory> pinned_;
  bool recording_ = false;
  std::vector<std::vector<std::function<void()>>> recordings_;
};

}  // namespace rehearsal::standin
