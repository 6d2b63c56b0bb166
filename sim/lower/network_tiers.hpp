// What native kernels keep off the device (sim/design/real-tiers.md): copies between buffers that are either resident
// or allocated and freed by the compute lane. So no high-water mark of any tier depends on when a copy ends.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "lower/sequencer.hpp"

namespace rehearsal::lower {

// Buffers that are allocated (and pinned) once and used in turn: the next user of a slot waits for the last one.
class BufferPool {
 public:
  struct Slot {
    BufferId buffer;
    std::vector<LocalTask> used;  // last tasks that use it
  };
  // Call before the first task. Does nothing if the buffers have no size.
  void open(ProgramDraft& draft, std::size_t slots, const graph::Buffer& each);
  Slot& next();

 private:
  std::vector<Slot> slots_;
  std::size_t at_ = 0;
};

// Device buffers on their way to another tier, oldest first: the compute lane frees each once its copy has ended.
class PendingOffload {
 public:
  explicit PendingOffload(Sequencer& sequencer) : sequencer_(sequencer) {}
  void add(LocalTask left, BufferId buffer) { under_way_.emplace_back(left, buffer); }
  // Frees all but the newest `but`.
  void settle(std::size_t but, const graph::Coordinates& at);

 private:
  Sequencer& sequencer_;
  std::vector<std::pair<LocalTask, BufferId>> under_way_;
};

// A buffer that holds a value on some tier, from its first byte on.
struct TierBuffer {
  Tier tier = Tier::device;
  BufferId buffer;
};

class NetworkTiers {
 public:
  explicit NetworkTiers(ProgramDraft& draft) : draft_(draft), offload_(draft.pipe.plan->job.training.offload) {}

  const models::Offload& offload() const { return offload_; }

  // A copy between neighbouring tiers, on its lane. `shard`: as in graph::Copy.
  LocalTask copy(Bytes size, TierBuffer from, TierBuffer to, const graph::Coordinates& at, std::vector<LocalTask> after,
                 std::optional<Axis> shard = {});
  // Copies to and from a buffer of the device, staged in host memory if the tier is a disk. `ready`: when the bytes
  // exist, `room`: when the destination may be written.
  LocalTask fetch(Bytes size, TierBuffer from, BufferId to, const graph::Coordinates& at, std::vector<LocalTask> ready,
                  std::vector<LocalTask> room, BufferPool& staged);
  struct Stored {
    LocalTask left, there;
  };
  Stored store(Bytes size, BufferId from, TierBuffer to, const graph::Coordinates& at, std::vector<LocalTask> ready,
               std::vector<LocalTask> room, BufferPool& staged, std::optional<Axis> shard = {});

  // Slots that a path needs so that its copies may run ahead as far as the scenario says.
  std::size_t slots() const { return static_cast<std::size_t>(offload_.prefetch) + 1; }

 private:
  ProgramDraft& draft_;
  const models::Offload& offload_;
};

}  // namespace rehearsal::lower
