// The order of tasks of the native kernels on one rank.
#pragma once
#include <span>
#include <vector>

#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

// Compute tasks and data collectives in one total order: a collective follows the kernel before it, and the next kernel
// follows the collective. Tasks that run beside them (copies between tiers) allocate and free nothing. So memory
// depends on the program alone, not on times.
class Sequencer {
 public:
  explicit Sequencer(ProgramDraft& draft) : draft_(draft) {}
  LocalTask compute(WorkId work, const graph::Coordinates& at, std::span<const graph::BufferUse> uses,
                    std::uint32_t endpoint = graph::kNoEndpoint, std::optional<LocalTask> after = {});
  // A kernel in the precision of the network.
  LocalTask kernel(Kernel kernel, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  // A collective over the replicas along an axis, or over the embedding group.
  LocalTask collective(CollectiveKind kind, Precision precision, std::int64_t elements, const graph::Coordinates& at,
                       std::span<const graph::BufferUse> uses, Axis replicas);
  // Over the tensor group: all-reduce of a gradient buffer; all-gather of one part per rank into the whole.
  void tensor_sum(std::int64_t elements, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  void tensor_gather(Bytes whole, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  void embedding_sum(std::int64_t elements, const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  // An empty task: allocates buffers for concurrent copies, and frees buffers that they used.
  LocalTask join(const graph::Coordinates& at, std::span<const graph::BufferUse> uses);
  // The next task of any kind also waits for this one.
  void wait_for(LocalTask beside) { awaited_.push_back(beside); }

  LocalTask last() const { return last_; }
  // Tasks that have ended when everything so far has ended.
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
