// Performs the compute-lane tasks of one rank: with real kernels on real buffers (hw/cpu, later hw/cuda), or not at all
// (timed tasks).
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "base/error.hpp"
#include "dispatch/operands.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// What a rank reports after training, per step.
struct Learned {
  std::vector<double> loss;                    // the rank's part of the sum; 0 if another rank counts it
  std::vector<double> squared_gradients;       // the rank's part of the squared norm; shared values count once
  std::vector<std::vector<float>> parameters;  // per segment: the buffer as the rank holds it
  // Per segment, for the elements that this rank updates: the master copy (empty without one), and what
  // backend::TrainedTensor calls gathered and response (empty without them).
  std::vector<std::vector<float>> masters, gathered, responses;
  Bytes peak;  // high-water mark of the rank's buffers
  // Memory beyond the one that the rank computes in: its high-water mark by tier and, when the disk is a file, how its
  // bytes were transferred and how much of it was in the page cache at the end. Empty without such memory.
  std::vector<Bytes> beyond;  // by tier
  struct Disk {
    std::string means;
    Bytes length, cached;
  };
  Disk disk;
  std::vector<timeline::DeviceReport> devices;  // at most one: of the first rank of each observed device
  Bytes allocator_peak;       // peak as counted by the device's allocator, with rounding; 0 without one
  Bytes allocator_allowance;  // bound on that rounding
};

class Worker {
 public:
  virtual ~Worker() = default;
  virtual void begin_step(int step) = 0;
  // Allocates the task's buffers; called before any other function for the task.
  virtual void enter(LocalTask task) = 0;
  virtual void perform(LocalTask task) = 0;  // a Kernel, on the operands that the task names
  // The bytes of the first buffer that a task reads or writes, from its offset: what a StagingCopy copies.
  virtual std::span<std::byte> payload(LocalTask task) = 0;
  virtual Operands operands(LocalTask task) = 0;  // of a Collective
  // Starts a task that runs beside kernels: a copy between tiers, a step of the host. ended() is polled until it
  // returns the end (clock.hpp), and throws if the task failed.
  virtual void begin(LocalTask) { INVARIANT(false, "this worker has one tier of memory"); }
  virtual std::optional<Time> ended(LocalTask) { return std::nullopt; }
  virtual void leave(LocalTask task) = 0;  // frees what the task frees
  virtual Learned learned() = 0;           // of a run that has ended
};

}  // namespace rehearsal::dispatch
