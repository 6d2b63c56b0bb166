// What performs the compute-lane tasks of one rank: real kernels on real buffers (hw/cpu, later hw/cuda), or nothing at
// all (timed tasks).
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// What a rank has to show after a run, per step.
struct Learned {
  std::vector<double> loss;               // the rank's part of the sum; 0 where another rank counts it
  std::vector<double> squared_gradients;  // the rank's part of the squared norm; what replicas share is counted once
  std::vector<std::vector<float>> parameters;  // of each segment: the buffer as it is held
  // Of the elements of each segment that the rank updates: the master copy (empty without one), and what
  // backend::TrainedTensor calls gathered and response (empty where there is none).
  std::vector<std::vector<float>> masters, gathered, responses;
  Bytes peak;            // high-water mark of the rank's buffers
  Bytes allocator_peak;  // the same as the device's allocator counts it, with its rounding; 0 where there is none
};

class Worker {
 public:
  virtual ~Worker() = default;
  virtual void begin_step(int step) = 0;
  // Allocates what the task allocates; called before anything else of it.
  virtual void enter(LocalTask task) = 0;
  virtual void perform(LocalTask task) = 0;  // a Kernel, on the operands that the task names
  // The bytes of the first read or written buffer of a task, from its offset: what a Handover copies.
  virtual std::span<std::byte> payload(LocalTask task) = 0;
  // Of a Collective: in and out as in Transport::join.
  struct Operands {
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  virtual Operands operands(LocalTask task) = 0;
  virtual void leave(LocalTask task) = 0;  // frees what the task frees
  virtual Learned learned() const = 0;
};

}  // namespace rehearsal::dispatch
