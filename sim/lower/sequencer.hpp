// The order of what this program's own kernels do on one rank.
#pragma once
#include <span>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

// Tasks of the compute lane and data collectives in one total order: a collective follows the kernel before it, and the
// next kernel follows the collective. What else runs beside them (copies between tiers) allocates and frees nothing. So
// memory depends on the program alone, not on times.
class Sequencer {
 public:
  explicit Sequencer(ProgramDraft& draft) : draft_(draft) {}
  LocalTask compute(WorkId work, const graph::Coordinates& at, std::span<const graph::BufferUse> uses,
                    std::uint32_t endpoint = graph::kNoEndpoint, std::optional<LocalTask> after = {});
  // In the precision of the network.
  LocalTask kernel(Kernel kernel, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  // Of the group of replicas along an axis, or of the embedding's.
  LocalTask collective(CollectiveKind kind, Precision precision, std::int64_t elements, const graph::Coordinates& at,
                       std::span<const graph::BufferUse> uses, Axis replicas);
  // Over the tensor group: of a buffer of gradients; of one part each into the whole.
  void tensor_sum(std::int64_t elements, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  void tensor_gather(Bytes whole, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  void embedding_sum(std::int64_t elements, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  // No work: what it allocates is there for tasks beside, what it frees was theirs.
  LocalTask join(const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  // The next of all these begins after this one too.
  void wait_for(LocalTask beside) { awaited_.push_back(beside); }

  LocalTask last() const { return last_; }
  // What has ended when everything so far has.
  std::vector<LocalTask> so_far() const;

 private:
  ProgramDraft& draft_;
  std::vector<LocalTask> before();

  LocalTask last_;                  // of the compute lane
  std::optional<LocalTask> waits_;  // a collective that the next kernel follows
  std::vector<LocalTask> awaited_;
  bool any_ = false;
};

}  // namespace rehearsal::lower
