// ZeRO-1 that gathers, under the forward, the parameters that the previous step updated
// (plan::StatePolicy::Gather::under_forward): bucket by bucket, in the order in which the forward needs them, back to
// back from the start of the step. Buckets are those of the gradients, from last to first (Megatron-Core,
// distributed/param_and_grad_buffer.py and the forward pre-hooks of distributed_data_parallel.py).
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lower/gradient_buckets.hpp"
#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

class GatheredForward {
 public:
  // Adds the gathers. `stages`: those of the rank, ascending.
  GatheredForward(ProgramDraft& draft, const std::vector<std::uint32_t>& stages);

  // The first forward of a stage waits for gathers, so it is emitted part by part.
  bool waits(const graph::Coordinates& at) const { return at.pass == graph::Pass::forward && !begun_.count(at.stage); }
  void before(const graph::Coordinates& at, std::size_t use, std::vector<LocalTask>& waits) const;
  void passed(const graph::Coordinates& at) { begun_.insert(at.stage); }

 private:
  using Use = std::pair<std::uint32_t, std::size_t>;  // a stage, and which of its uses

  std::map<Use, std::vector<LocalTask>> before_;  // the gathers that a part waits for
  std::set<std::uint32_t> begun_;
};

}  // namespace rehearsal::lower
