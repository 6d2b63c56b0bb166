// Real compute of one rank on a GPU: its buffers, weights and data in device memory, and the kernels of its tasks,
// queued on streams. The counterpart of cpu/cpu_worker.hpp, with which it shares cpu/operands.hpp and
// cpu/training_state.hpp.
//
// Memory is counted twice: the sum of simultaneously live buffers, in program order, which is comparable to a
// prediction to the byte; and the high-water mark of the device's own allocator, which rounds.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "backend/backend.hpp"
#include "cpu/training_state.hpp"
#include "dispatch/worker.hpp"
#include "gpu/device.hpp"

namespace rehearsal::gpu {

class GpuWorker {
 public:
  // Allocates the resident buffers, initialises the parameters and uploads the data of all micro-batches on `home`, the
  // stream of all kernels. Throws MachineError when out of memory, then and later.
  GpuWorker(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Device& device,
            StreamId home);
  ~GpuWorker();
  GpuWorker(const GpuWorker&) = delete;
  GpuWorker& operator=(const GpuWorker&) = delete;

  void load();  // prepares the device for all kernels: before any peer may wait for this rank
  void begin_iteration();
  void enter(LocalTask task, StreamId stream);  // allocates what the task allocates
  void perform(LocalTask task);                 // a Kernel
  void leave(LocalTask task, StreamId stream);  // frees what the task frees
  void end_iteration();                         // starts copying the losses to the host

  struct Payload {
    Address at = nullptr;
    Bytes size;
  };
  Payload payload(LocalTask staging_copy) const;
  struct Operands {
    const std::byte* in = nullptr;
    Address out = nullptr;
    std::int64_t part = 0;
  };
  Operands operands(LocalTask collective) const;

  // Keeps the losses; the device must have passed end_iteration().
  void collect();
  // What the rank trained; the device must be idle.
  dispatch::Learned learned();

 private:
  struct Data {
    std::int32_t *tokens = nullptr, *targets = nullptr;
    float *rows = nullptr, *row_targets = nullptr;
    std::int32_t* documents = nullptr;
  };
  void allocate(BufferId id, const std::string& whose, StreamId stream);
  Address at(const cpu::Extent& extent) const;
  // `where`: gives the address of an operand's extent.
  template <class Where>
  kernels::Call call_of(LocalTask task, Where&& where);
  std::vector<std::byte> download(const cpu::Extent& extent);
  template <class T>
  T* upload(std::span<const T> values);
  const Data& data(LocalTask task);

  const graph::TaskGraph& graph_;
  RankId id_;
  const graph::Rank& rank_;
  const graph::Program& program_;
  backend::TrainingData learning_;
  cpu::TrainingState state_;
  Device& device_;
  StreamId home_;
  bool poison_;
  PoolId buffers_, inputs_;

  std::vector<Address> blocks_;  // by BufferId; null when not live
  Bytes live_, peak_;
  std::int64_t live_blocks_ = 0, most_blocks_ = 0;
  std::vector<Address> inputs_held_;
  // Key: global micro-batch, part of its sequences.
  std::map<std::pair<std::int64_t, std::int64_t>, Data> data_;
  std::vector<cpu::KernelOperands> operands_;               // by task: its kernel's operands; used by every launch
  std::vector<const kernels::Range*> counted_;              // by segment
  std::map<std::int64_t, const kernels::Range*> matrices_;  // AdaLOMO: the range of a whole matrix, by its elements
  std::int64_t* steps_ = nullptr;                           // of the optimizer, by segment: read by the kernels
  double* squared_gradients_ = nullptr;
  double* scratch_ = nullptr;
  std::span<double> results_;     // pinned: loss, squared gradients
  std::span<std::byte> staging_;  // pinned
  EventId downloaded_;
  dispatch::Learned learned_;
};

// Waits until a stream has completed all queued work, by `done`, an event with no other use; calls `check` meanwhile,
// which may throw to give up.
void drain(
    Device& device, StreamId stream, EventId done, const std::function<void()>& check = [] {});

}  // namespace rehearsal::gpu
