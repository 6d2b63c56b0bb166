// One NVIDIA GPU, as an implementation of gpu/device.hpp. The thread that made it makes all calls.
//
// Memory blocks come from stream-ordered pools that keep freed memory, so only the first pass calls the driver. Outside
// the pools are: the context, the workspace of matrix products, pinned memory (of the host).
//
// A recording is a CUDA graph, captured from the streams. Data copied to the device during recording is copied again,
// unchanged, by every replay. An event has two forms there: an edge between captured streams, and a node that takes the
// time of each replay.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <vector>

#include "cuda/activity.hpp"
#include "cuda/gemm.hpp"
#include "cuda/partitions.hpp"
#include "gpu/device.hpp"

namespace rehearsal::cuda {

class CudaDevice : public gpu::Device {
 public:
  explicit CudaDevice(int index);
  // Waits for pending work; first aborts communicators that may never finish.
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const gpu::DeviceFacts& facts() const override { return facts_; }
  Bytes workspace() const override { return gemms_->workspace(); }
  std::vector<int> partition(std::size_t parts) override;
  gpu::StreamId make_stream(std::size_t part) override;

  gpu::EventId make_event() override;
  void record(gpu::EventId event, gpu::StreamId stream) override;
  void wait(gpu::StreamId stream, gpu::EventId event) override;
  bool reached(gpu::EventId event) override;
  Time between(gpu::EventId from, gpu::EventId to) override;

  gpu::PoolId make_pool() override;
  gpu::Address allocate(gpu::PoolId pool, Bytes size, gpu::StreamId stream) override;
  void free(gpu::Address block, gpu::StreamId stream) override;
  Bytes high_water(gpu::PoolId pool) override;
  std::span<std::byte> pinned(Bytes size) override;

  void copy(void* to, const void* from, Bytes size, gpu::Direction direction, gpu::StreamId stream) override;
  void fill(gpu::Address to, std::byte value, Bytes size, gpu::StreamId stream) override;

  void load(const kernels::Call& call, gpu::StreamId stream) override;
  void perform(const kernels::Call& call, gpu::StreamId stream) override;
  void spin(Time duration, gpu::StreamId stream) override;
  void accumulate(Precision precision, gpu::Address to, const std::byte* from, std::int64_t elements,
                  gpu::StreamId stream) override;
  void count(std::int64_t* number, std::int64_t more, gpu::StreamId stream) override;

  void begin_recording(gpu::StreamId stream) override;
  gpu::RecordingId end_recording(gpu::StreamId stream) override;
  void replay(gpu::RecordingId recording, gpu::StreamId stream) override;

  void observe() override;
  gpu::DeviceReport observed() override;

  int index() const { return index_; }
  // The recording that is being made, if any. A forgotten one must not be replayed.
  std::optional<gpu::RecordingId> recording() const;
  void forget(gpu::RecordingId recording) noexcept;
  cudaStream_t handle(gpu::StreamId stream) const { return streams_.at(stream.index()); }

 private:
  struct Event {
    cudaEvent_t time{};  // outside of recordings also an edge
    cudaEvent_t edge{};  // within a recording
    int recording = 0;   // the recording in which it was last recorded; 0: none
  };

  // The number of the recording that captures the stream; 0: it runs.
  int recording_of(cudaStream_t stream) const;
  int multiprocessors() const;  // available to each stream
  template <class Product, class Kernel>
  void each_part(const kernels::Call& call, Product&& product, Kernel&& own);
  void copy_to_device(void* to, const void* from, std::size_t size, cudaStream_t stream);

  const int index_;
  gpu::DeviceFacts facts_;
  std::unique_ptr<Gemms> gemms_;
  std::unique_ptr<Partitions> partitions_;
  std::vector<cudaStream_t> streams_;
  std::vector<Event> events_;
  std::vector<cudaMemPool_t> pools_;
  std::vector<std::span<std::byte>> pinned_;
  std::vector<cudaGraphExec_t> recordings_;
  int recording_ = 0;  // the recording being made; 0: none
  int begun_ = 0;
  Profiler profiler_;
};

// Number of GPUs that this process may use. Throws MachineError "no CUDA device: ..." when there is none.
std::size_t devices();

}  // namespace rehearsal::cuda
