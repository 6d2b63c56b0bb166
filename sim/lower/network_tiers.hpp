// What this program's own kernels keep beyond the device (sim/design/real-tiers.md): copies between buffers that are
// there for the whole run, or that the compute lane allocates and frees. So no high-water mark of any tier depends on
// when a copy ends.
#pragma once
#include <optional>
#include <vector>

#include "lower/sequencer.hpp"

namespace rehearsal::lower {

// Memory that is taken once and used in turn, as buffers that are pinned once: who uses it next waits for who did last.
class Room {
 public:
  struct Slot {
    BufferId buffer;
    std::vector<LocalTask> used;  // by the last one
  };
  // Before the first task. Nothing where the buffers have no size.
  void open(Draft& draft, std::size_t slots, const graph::Buffer& each);
  Slot& next();

 private:
  std::vector<Slot> slots_;
  std::size_t at_ = 0;
};

// A buffer that keeps something on a tier; nothing else is in its first bytes.
struct Home {
  Tier tier = Tier::device;
  BufferId buffer;
};

class NetworkTiers {
 public:
  explicit NetworkTiers(Draft& draft) : draft_(draft), offload_(draft.pipe.plan->job.training.offload) {}

  const models::Offload& offload() const { return offload_; }

  // One step of the way, on its lane. `shard`: as graph::Copy.
  LocalTask copy(Bytes size, Home from, Home to, const graph::Coordinates& at, std::vector<LocalTask> after,
                 std::optional<Axis> shard = {});
  // To a buffer of the device and from it, over memory of the host where there are disks. `ready`: when the bytes are
  // there, `room`: when they may arrive.
  LocalTask fetch(Bytes size, Home from, BufferId to, const graph::Coordinates& at, std::vector<LocalTask> ready,
                  std::vector<LocalTask> room, Room& staged);
  struct Stored {
    LocalTask left, there;
  };
  Stored store(Bytes size, BufferId from, Home to, const graph::Coordinates& at, std::vector<LocalTask> ready,
               std::vector<LocalTask> room, Room& staged, std::optional<Axis> shard = {});

  // How many slots a way needs so that its copies may be as far ahead as the scenario says.
  std::size_t slots() const { return static_cast<std::size_t>(offload_.prefetch) + 1; }

 private:
  Draft& draft_;
  const models::Offload& offload_;
};

}  // namespace rehearsal::lower
