#include "cuda/device.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cuda/capture.hpp"
#include "cuda/check.hpp"
#include "cuda/launch.hpp"
#include "kernels/expert_products.hpp"

namespace rehearsal::cuda {
namespace {

using gpu::Address;
using gpu::Direction;
using gpu::EventId;
using gpu::PoolId;
using gpu::RecordingId;
using gpu::StreamId;

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes.count()); }

// The version of the kernel module, where available, and the newest CUDA that it supports.
std::string driver_version() {
  int number = 0;
  check(cudaDriverGetVersion(&number), "cudaDriverGetVersion");
  std::string module;
  std::ifstream("/sys/module/nvidia/version") >> module;
  return fmt::format("{}{}CUDA {}", module, module.empty() ? "" : ", ", cuda_version(number));
}

int capability_of(int index) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

// The number that prepare_environment() or the user has set; CUDA's default is 8.
std::size_t connections() {
  const char* const asked = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int number = asked ? std::atoi(asked) : 0;
  return number > 0 ? static_cast<std::size_t>(number) : 8;
}

gpu::DeviceFacts facts_of(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  std::size_t free = 0, whole = 0;
  check(cudaMemGetInfo(&free, &whole), "cudaMemGetInfo");
  int runtime = 0, nccl = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  ncclGetVersion(&nccl);
  const std::size_t lt = cublasLtGetVersion();
  return {.name = properties.name,
          .capability = fmt::format("{}.{}", properties.major, properties.minor),
          .multiprocessors = properties.multiProcessorCount,
          .connections = connections(),
          .memory = Bytes(static_cast<std::int64_t>(whole)),
          .free = Bytes(static_cast<std::int64_t>(free)),
          .driver = driver_version(),
          .runtime = cuda_version(runtime),
          .libraries = {{"cuBLASLt", fmt::format("{}.{}.{}", lt / 10000, lt / 100 % 100, lt % 100)},
                        {"NCCL", fmt::format("{}.{}.{}", nccl / 10000, nccl / 100 % 100, nccl % 100)}}};
}

}  // namespace

std::size_t devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) throw MachineError(fmt::format("no CUDA device: {}", cudaGetErrorString(status)));
  if (count == 0) throw MachineError("no CUDA device");
  return static_cast<std::size_t>(count);
}

CudaDevice::CudaDevice(int index) : index_(index), profiler_(index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaFree(nullptr), "making a context");  // the first call creates it, and it takes memory
  facts_ = facts_of(index);
  gemms_ = std::make_unique<Gemms>(capability_of(index));
  load_helpers();
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(index_);
  for (cudaStream_t stream : streams_) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (recording_ == 0 || cudaStreamIsCapturing(stream, &status) != cudaSuccess) break;
    cudaGraph_t unfinished{};
    if (status != cudaStreamCaptureStatusNone) cudaStreamEndCapture(stream, &unfinished);
    if (unfinished) cudaGraphDestroy(unfinished);
  }
  cudaDeviceSynchronize();
  for (std::size_t i = 0; i < recordings_.size(); ++i) forget(RecordingId(i));
  for (const Event& event : events_) {
    cudaEventDestroy(event.time);
    if (event.edge) cudaEventDestroy(event.edge);
  }
  gemms_.reset();
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  partitions_.reset();
  for (cudaMemPool_t pool : pools_) cudaMemPoolDestroy(pool);
  for (std::span<std::byte> block : pinned_) cudaFreeHost(block.data());
}

// ---------------------------------------------------------------------------------------------- streams and events

std::vector<int> CudaDevice::partition(std::size_t parts) {
  INVARIANT(streams_.empty() && !partitions_, "the device is partitioned once, before streams are made");
  INVARIANT(parts > 0, "no partition");
  if (parts > 1) partitions_ = std::make_unique<Partitions>(index_, parts);
  return std::vector<int>(parts, partitions_ ? partitions_->multiprocessors() : facts_.multiprocessors);
}

int CudaDevice::multiprocessors() const {
  return partitions_ ? partitions_->multiprocessors() : facts_.multiprocessors;
}

StreamId CudaDevice::make_stream(std::size_t part) {
  INVARIANT(part < (partitions_ ? partitions_->count() : 1), "no such partition");
  const AnyCallAllowed while_recording;
  cudaStream_t stream{};
  if (partitions_)
    stream = partitions_->make_stream(part);
  else  // not blocking: nothing here synchronises with the default stream, which is unused
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  streams_.push_back(stream);
  return StreamId(streams_.size() - 1);
}

EventId CudaDevice::make_event() {
  Event event;
  check(cudaEventCreate(&event.time), "cudaEventCreate");
  events_.push_back(event);
  return EventId(events_.size() - 1);
}

int CudaDevice::recording_of(cudaStream_t stream) const {
  if (recording_ == 0) return 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status == cudaStreamCaptureStatusNone ? 0 : recording_;
}

void CudaDevice::record(EventId id, StreamId stream) {
  Event& event = events_.at(id.index());
  const cudaStream_t on = handle(stream);
  event.recording = recording_of(on);
  if (event.recording == 0) {
    check(cudaEventRecord(event.time, on), "cudaEventRecord");
    return;
  }
  // A captured event is an edge and has no time; an external one has a time and is no edge.
  if (event.edge == nullptr)
    check(cudaEventCreateWithFlags(&event.edge, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check(cudaEventRecordWithFlags(event.time, on, cudaEventRecordExternal), "cudaEventRecordWithFlags");
  check(cudaEventRecord(event.edge, on), "cudaEventRecord");
}

void CudaDevice::wait(StreamId stream, EventId id) {
  const Event& event = events_.at(id.index());
  const cudaStream_t on = handle(stream);
  if (event.recording != 0 && event.recording == recording_) {  // this also makes a stream join the recording
    check(cudaStreamWaitEvent(on, event.edge, cudaEventWaitDefault), "cudaStreamWaitEvent");
    return;
  }
  // A recorded wait for an event outside the recording waits, at each replay, for that event's last record by then.
  const unsigned flags = recording_of(on) != 0 ? cudaEventWaitExternal : cudaEventWaitDefault;
  check(cudaStreamWaitEvent(on, event.time, flags), "cudaStreamWaitEvent");
}

bool CudaDevice::reached(EventId id) {
  const AnyCallAllowed while_recording;
  const cudaError_t status = cudaEventQuery(events_.at(id.index()).time);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

// As exact as the library's float of milliseconds: half a microsecond is resolved for times up to four seconds.
Time CudaDevice::between(EventId from, EventId to) {
  const AnyCallAllowed while_recording;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events_.at(from.index()).time, events_.at(to.index()).time),
        "cudaEventElapsedTime");
  return seconds(double(milliseconds) * 1e-3);
}

// ---------------------------------------------------------------------------------------------------------- memory

PoolId CudaDevice::make_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {};
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index_;
  cudaMemPool_t pool{};
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  pools_.push_back(pool);
  std::uint64_t keep_all = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
  // A block passes between streams only where our own events allow it: not by chance of timing, nor by waits that the
  // allocator inserts and that no graph contains.
  int never = 0;
  for (cudaMemPoolAttr reuse : {cudaMemPoolReuseAllowOpportunistic, cudaMemPoolReuseAllowInternalDependencies})
    check(cudaMemPoolSetAttribute(pool, reuse, &never), "cudaMemPoolSetAttribute");
  return PoolId(pools_.size() - 1);
}

Address CudaDevice::allocate(PoolId pool, Bytes size, StreamId stream) {
  void* block = nullptr;
  const std::size_t bytes = std::max<std::size_t>(size_of(size), 1);
  const cudaError_t status = cudaMallocFromPoolAsync(&block, bytes, pools_.at(pool.index()), handle(stream));
  if (status != cudaSuccess)
    check(status, fmt::format("{} of GPU memory (of {}, {} were free at the start)", show(size), show(facts_.memory),
                              show(facts_.free))
                      .c_str());
  return static_cast<Address>(block);
}

void CudaDevice::free(Address block, StreamId stream) { check(cudaFreeAsync(block, handle(stream)), "cudaFreeAsync"); }

Bytes CudaDevice::high_water(PoolId pool) {
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pools_.at(pool.index()), cudaMemPoolAttrUsedMemHigh, &bytes),
        "cudaMemPoolGetAttribute");
  return Bytes(static_cast<std::int64_t>(bytes));
}

std::span<std::byte> CudaDevice::pinned(Bytes size) {
  const AnyCallAllowed while_recording;
  void* block = nullptr;
  check(cudaHostAlloc(&block, std::max<std::size_t>(size_of(size), 1), cudaHostAllocDefault), "cudaHostAlloc");
  return pinned_.emplace_back(static_cast<std::byte*>(block), size_of(size));
}

void CudaDevice::copy(void* to, const void* from, Bytes size, Direction direction, StreamId stream) {
  const cudaStream_t on = handle(stream);
  switch (direction) {
    case Direction::to_device:
      return copy_to_device(to, from, size_of(size), on);
    case Direction::within_device:
      return check(cudaMemcpyAsync(to, from, size_of(size), cudaMemcpyDeviceToDevice, on), "cudaMemcpyAsync");
    case Direction::to_host:
      return check(cudaMemcpyAsync(to, from, size_of(size), cudaMemcpyDeviceToHost, on), "cudaMemcpyAsync");
  }
}

// Pageable memory may change after the call: the driver has copied it. Pinned memory is read when the stream reaches
// the copy, and recorded copies read theirs at each replay, so for those this makes a copy.
void CudaDevice::copy_to_device(void* to, const void* from, std::size_t size, cudaStream_t stream) {
  const auto* const begin = static_cast<const std::byte*>(from);
  std::vector<std::byte> pageable;
  if (recording_of(stream) != 0) {
    const std::span<std::byte> kept = pinned(Bytes(static_cast<std::int64_t>(size)));
    std::memcpy(kept.data(), from, size);
    from = kept.data();
  } else if (std::any_of(pinned_.begin(), pinned_.end(), [&](std::span<std::byte> block) {
               return begin >= block.data() && begin < block.data() + block.size();
             })) {
    pageable.assign(begin, begin + size);
    from = pageable.data();
  }
  check(cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

void CudaDevice::fill(Address to, std::byte value, Bytes size, StreamId stream) {
  check(cudaMemsetAsync(to, static_cast<int>(value), size_of(size), handle(stream)), "cudaMemsetAsync");
}

// ------------------------------------------------------------------------------------------------------------- work

// Runs one own kernel, or one library product per matrix product of a call.
template <class Product, class Kernel>
void CudaDevice::each_part(const kernels::Call& call, Product&& product, Kernel&& own) {
  const int partition = partitions_ ? multiprocessors() : 0;
  if (traits(call.kernel.kind).of_experts)
    kernels::each_expert_call(call, [&](const kernels::Call& one) { product(one, partition); });
  else if (is_linear(call.kernel.kind))
    product(call, partition);
  else
    own(multiprocessors());
}

void CudaDevice::load(const kernels::Call& call, StreamId stream) {
  each_part(
      call, [&](const kernels::Call& one, int partition) { gemms_->load(one, handle(stream), partition); },
      [&](int available) { cuda::load(call, available); });
}

void CudaDevice::perform(const kernels::Call& call, StreamId stream) {
  each_part(
      call, [&](const kernels::Call& one, int partition) { gemms_->perform(one, handle(stream), partition); },
      [&](int available) { launch(call, handle(stream), available); });
}

void CudaDevice::spin(Time duration, StreamId stream) { launch_spin(duration, handle(stream)); }

void CudaDevice::accumulate(Precision precision, Address to, const std::byte* from, std::int64_t elements,
                            StreamId stream) {
  launch_accumulate(precision, to, from, elements, handle(stream));
}

void CudaDevice::count(std::int64_t* number, std::int64_t more, StreamId stream) {
  launch_count(number, more, handle(stream));
}

void CudaDevice::begin_recording(StreamId stream) {
  INVARIANT(recording_ == 0, "one recording at a time");
  // A recording allocates from memory of its own, so the memory that pools keep for the next pass is released first.
  for (cudaMemPool_t pool : pools_) check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
  check(cudaStreamBeginCapture(handle(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  recording_ = ++begun_;
}

RecordingId CudaDevice::end_recording(StreamId stream) {
  recording_ = 0;
  cudaGraph_t graph{};
  check(cudaStreamEndCapture(handle(stream), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t made{};
  const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  recordings_.push_back(made);
  check(cudaGraphUpload(made, handle(stream)), "cudaGraphUpload");  // so that the first replay does not do it
  return RecordingId(recordings_.size() - 1);
}

std::optional<RecordingId> CudaDevice::recording() const {
  return recording_ > 0 ? std::optional(RecordingId(recordings_.size())) : std::nullopt;
}

void CudaDevice::forget(RecordingId recording) noexcept {
  if (recording.index() >= recordings_.size()) return;  // it was never finished
  if (auto made = std::exchange(recordings_[recording.index()], nullptr)) cudaGraphExecDestroy(made);
}

void CudaDevice::replay(RecordingId recording, StreamId stream) {
  check(cudaGraphLaunch(recordings_.at(recording.index()), handle(stream)), "cudaGraphLaunch");
}

void CudaDevice::observe() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // earlier work must not be recorded
  profiler_.observe();
}

gpu::DeviceReport CudaDevice::observed() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  gpu::DeviceReport report = profiler_.observed();
  std::size_t free = 0, whole = 0;
  check(cudaMemGetInfo(&free, &whole), "cudaMemGetInfo");
  report.taken = facts_.free - Bytes(static_cast<std::int64_t>(free));
  return report;
}

}  // namespace rehearsal::cuda
