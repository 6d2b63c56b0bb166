// What this program's own kernels keep beyond the device (sim/design/real-tiers.md): copies between buffers that are
// there for the whole run, or that the compute lane allocates and frees. So no high-water mark of any tier depends on
// when a copy ends.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "lower/sequencer.hpp"

namespace rehearsal::lower {

// Memory that is taken once and used in turn, as buffers that are pinned once: who uses it next waits for who did last.
class BufferPool {
 public:
  struct Slot {
    BufferId buffer;
    std::vector<LocalTask> used;  // by the last one
  };
  // Before the first task. Nothing where the buffers have no size.
  void open(ProgramDraft& draft, std::size_t slots, const graph::Buffer& each);
  Slot& next();

 private:
  std::vector<Slot> slots_;
  std::size_t at_ = 0;
};

// Buffers of the device that are on their way to another tier, oldest first: the compute lane frees them when they have
// left.
class PendingOffload {
 public:
  explicit PendingOffload(Sequencer& sequencer) : sequencer_(sequencer) {}
  void add(LocalTask left, BufferId buffer) { under_way_.emplace_back(left, buffer); }
  // Frees all but so many.
  void settle(std::size_t but, const graph::Coordinates& at);

 private:
  Sequencer& sequencer_;
  std::vector<std::pair<LocalTask, BufferId>> under_way_;
};

// A buffer that keeps something on a tier; nothing else is in its first bytes.
struct TierBuffer {
  Tier tier = Tier::device;
  BufferId buffer;
};

class NetworkTiers {
 public:
  explicit NetworkTiers(ProgramDraft& draft) : draft_(draft), offload_(draft.pipe.plan->job.training.offload) {}

  const models::Offload& offload() const { return offload_; }

  // One step of the way, on its lane. `shard`: as graph::Copy.
  LocalTask copy(Bytes size, TierBuffer from, TierBuffer to, const graph::Coordinates& at, std::vector<LocalTask> after,
                 std::optional<Axis> shard = {});
  // To a buffer of the device and from it, over memory of the host where there are disks. `ready`: when the bytes are
  // there, `room`: when they may arrive.
  LocalTask fetch(Bytes size, TierBuffer from, BufferId to, const graph::Coordinates& at, std::vector<LocalTask> ready,
                  std::vector<LocalTask> room, BufferPool& staged);
  struct Stored {
    LocalTask left, there;
  };
  Stored store(Bytes size, BufferId from, TierBuffer to, const graph::Coordinates& at, std::vector<LocalTask> ready,
               std::vector<LocalTask> room, BufferPool& staged, std::optional<Axis> shard = {});

  // How many slots a way needs so that its copies may be as far ahead as the scenario says.
  std::size_t slots() const { return static_cast<std::size_t>(offload_.prefetch) + 1; }

 private:
  ProgramDraft& draft_;
  const models::Offload& offload_;
};

}  // namespace rehearsal::lower
