// States that leave the device (sim/design/memory-tiers.md): where each is kept, the copies to and from there, and the
// step of an optimizer that runs on the host.
#pragma once
#include <optional>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

class Tiers {
 public:
  explicit Tiers(ProgramDraft& draft) : draft_(draft), offload_(draft.pipe.plan->job.training.offload) {}

  const models::Offload& offload() const { return offload_; }

  // Brings `size` bytes from their tier to the device, into a buffer that is allocated by the last of its tasks, which
  // is returned, and freed by later ones. `when`: what each copy waits for; `read` is for a read from disk. `leaves`: a
  // buffer that is freed once it has been read.
  struct When {
    std::vector<LocalTask> read, copy;
  };
  struct Fetched {
    LocalTask there;
    BufferId buffer;
  };
  Fetched fetch(Tier from, Bytes size, graph::MemoryCategory as, const graph::Coordinates& at, const When& when,
                std::uint32_t turns = 1, std::optional<BufferId> leaves = {});
  // Takes it away; frees `sources` of the device after the copy. `fills`: the buffer at the destination, if it is not
  // resident. Returns the last task.
  LocalTask store(Tier to, Bytes size, graph::MemoryCategory as, const graph::Coordinates& at,
                  std::vector<LocalTask> after, const std::vector<BufferId>& sources,
                  std::optional<BufferId> fills = {});

  // The optimizer's step on the host, tile by tile of its shard: gradients that are still on the device are copied out,
  // states on disks are read before and written after, parameters that the device uses come back. `parameters`: of this
  // rank's shard; `after`: when its gradients are complete. Returns the tasks that others wait for.
  std::vector<LocalTask> update(double parameters, Bytes traffic, const graph::Coordinates& at, LocalTask after);

 private:
  LocalTask copy(Bytes size, Tier from, Tier to, const graph::Coordinates& at, std::vector<LocalTask> after,
                 const std::vector<graph::BufferUse>& uses, std::uint32_t turns = 1);
  BufferId staging(Bytes size, graph::MemoryCategory as);

  ProgramDraft& draft_;
  const models::Offload& offload_;
};

// What must have ended before a prefetch `ahead` places ahead of the next task may begin, given the tasks that have
// computed in order; empty if there are fewer.
std::vector<LocalTask> ended_before(const std::vector<LocalTask>& computed, std::int64_t ahead);

}  // namespace rehearsal::lower
