// Copies of states that leave the device (sim/design/memory-tiers.md, real-tiers.md). What a framework's copy fills is
// allocated by it, and what it empties freed. Native kernels copy between buffers that are resident, or allocated and
// freed by the compute lane, so that no high-water mark of any tier depends on when a copy ends.
#pragma once
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "lower/sequencer.hpp"
#include "lower/step_emitter.hpp"

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

// One end of a copy: a tier, and the buffers there that hold the value from their first byte on. Without any it is a
// part of what is resident.
struct TierBuffer {
  Tier tier = Tier::device;
  std::vector<BufferId> buffers = {};
  BufferId buffer() const { return buffers.front(); }
};

// As in graph::Copy.
struct CopyWay {
  std::uint32_t turns = 1;
  std::optional<Axis> shard = {};
};

class Tiers {
 public:
  // `compute`: of native kernels, the lane that allocates and frees.
  explicit Tiers(ProgramDraft& draft, Sequencer* compute = nullptr)
      : draft_(draft), offload_(draft.pipe.plan->job.training.offload), compute_(compute) {}

  const models::Offload& offload() const { return offload_; }
  // Slots that a path needs so that its copies may run ahead as far as the scenario says.
  std::size_t slots() const { return static_cast<std::size_t>(offload_.prefetch) + 1; }

  // Between neighbouring tiers, on the lane between them.
  LocalTask copy(Bytes size, const TierBuffer& from, const TierBuffer& to, const graph::Coordinates& at,
                 std::vector<LocalTask> after, const CopyWay& through = {});

  // Between any two tiers, of which a disk is reached through host memory: fresh memory of this category, or a slot of
  // a pool. `ready`: when the bytes exist; `room`: when the last copy may begin. `left`: the source is free.
  struct When {
    std::vector<LocalTask> ready, room;
  };
  using StagedThrough = std::variant<graph::MemoryCategory, BufferPool*>;
  struct Moved {
    LocalTask left, there;
  };
  Moved move(Bytes size, const TierBuffer& from, const TierBuffer& to, const graph::Coordinates& at, When when,
             StagedThrough staged, const CopyWay& through = {});

  // A value leaves the device for `to`, which is allocated first if it is `fresh`; its buffer is freed when it has
  // left. And comes back into a buffer that is allocated for it. Native kernels wait for what all before them have
  // made.
  LocalTask leave(Bytes size, BufferId from, const TierBuffer& to, bool fresh, const graph::Coordinates& at, When when,
                  StagedThrough staged, const CopyWay& through = {});
  LocalTask come(Bytes size, const TierBuffer& from, BufferId to, const graph::Coordinates& at, When when,
                 StagedThrough staged);
  // The compute lane frees buffers that have left, all but the newest `but`.
  void settle(std::size_t but, const graph::Coordinates& at);

 private:
  ProgramDraft& draft_;
  const models::Offload& offload_;
  Sequencer* const compute_;
  std::deque<std::pair<LocalTask, BufferId>> leaving_;  // buffers on their way, oldest first
};

// The step of a framework's optimizer on the host, tile by tile of its shard: gradients that are still on the device
// are copied out, states on disks are read before and written after, parameters that the device uses come back.
// `parameters`: of this rank's shard; `after`: when its gradients are complete. Returns the tasks that others wait for.
std::vector<LocalTask> update_on_host(ProgramDraft& draft, double parameters, Bytes traffic,
                                      const graph::Coordinates& at, LocalTask after);

// What must have ended before a prefetch `ahead` places ahead of the next task may begin, given the tasks that have
// computed in order; empty if there are fewer.
std::vector<LocalTask> ended_before(const std::vector<LocalTask>& computed, std::int64_t ahead);

}  // namespace rehearsal::lower
