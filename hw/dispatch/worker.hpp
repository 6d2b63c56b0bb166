// What performs the compute-lane tasks of one rank: real kernels on real buffers (hw/cpu, later hw/cuda), or nothing at
// all (timed tasks).
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "base/error.hpp"
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
  Bytes peak;  // high-water mark of the rank's buffers
  // Of what is kept beyond the memory that it computes in: its high-water mark by tier, and where the disk is a file,
  // what carried its bytes and how much of it was in the page cache at the end. Empty where nothing is kept there.
  std::vector<Bytes> beyond;  // by tier
  struct Disk {
    std::string means;
    Bytes length, cached;
  };
  Disk disk;
  std::vector<timeline::DeviceReport> devices;  // one or none: of the first rank of each device that was observed
  Bytes allocator_peak;       // the same as the device's allocator counts it, with its rounding; 0 where there is none
  Bytes allocator_allowance;  // how much that rounding may be
};

class Worker {
 public:
  virtual ~Worker() = default;
  virtual void begin_step(int step) = 0;
  // Allocates what the task allocates; called before anything else of it.
  virtual void enter(LocalTask task) = 0;
  virtual void perform(LocalTask task) = 0;  // a Kernel, on the operands that the task names
  // The bytes of the first read or written buffer of a task, from its offset: what a StagingCopy copies.
  virtual std::span<std::byte> payload(LocalTask task) = 0;
  // Of a Collective: in and out as in Transport::join.
  struct Operands {
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  virtual Operands operands(LocalTask task) = 0;
  // What goes on beside kernels: a copy between tiers, a step of the host. When it ended (clock.hpp) is asked until it
  // has; throws what failed.
  virtual void begin(LocalTask) { INVARIANT(false, "this worker has one tier of memory"); }
  virtual std::optional<Time> ended(LocalTask) { return std::nullopt; }
  virtual void leave(LocalTask task) = 0;  // frees what the task frees
  virtual Learned learned() = 0;           // of a run that has ended
};

}  // namespace rehearsal::dispatch
