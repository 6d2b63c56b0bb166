// States that leave the device (sim/design/memory-tiers.md): where each is kept, the copies that bring it and take it
// away, and the step of an optimizer that runs on the host.
#pragma once
#include <optional>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

class Tiers {
 public:
  explicit Tiers(ProgramDraft& draft) : draft_(draft), offload_(draft.pipe.plan->job.training.offload) {}

  const models::Offload& offload() const { return offload_; }

  // Brings so much from where it is kept to the device: into a buffer that the last of its tasks, which is returned,
  // allocates as one of its uses and that is freed by others. `when`: what each step of the way waits for, the first of
  // them a read from disk. `leaves`: a buffer that is given up once it has been read.
  struct When {
    std::vector<LocalTask> read, copy;
  };
  struct Fetched {
    LocalTask there;
    BufferId buffer;
  };
  Fetched fetch(Tier from, Bytes size, graph::MemoryCategory as, const graph::Coordinates& at, const When& when,
                std::uint32_t turns = 1, std::optional<BufferId> leaves = {});
  // Takes it away; frees `sources` of the device once it has left. `fills`: a buffer for it where it arrives; else
  // there is room. The last task.
  LocalTask store(Tier to, Bytes size, graph::MemoryCategory as, const graph::Coordinates& at,
                  std::vector<LocalTask> after, const std::vector<BufferId>& sources,
                  std::optional<BufferId> fills = {});

  // The optimizer's step on the host, a tile of its shard after the other: gradients that are still on the device
  // leave it, states on disks are read before and written behind, parameters that the device computes with come back.
  // `parameters`: of this rank's shard; `after`: when its gradients are complete. The tasks that others wait for.
  std::vector<LocalTask> update(double parameters, Bytes traffic, const graph::Coordinates& at, LocalTask after);

 private:
  LocalTask copy(Bytes size, Tier from, Tier to, const graph::Coordinates& at, std::vector<LocalTask> after,
                 const std::vector<graph::BufferUse>& uses, std::uint32_t turns = 1);
  BufferId staging(Bytes size, graph::MemoryCategory as);

  ProgramDraft& draft_;
  const models::Offload& offload_;
};

// Of tasks that computed one after the other, what must have ended before something begins that is so many ahead of the
// next one; nothing where there are no more.
std::vector<LocalTask> ended_before(const std::vector<LocalTask>& computed, std::int64_t ahead);

}  // namespace rehearsal::lower
