// What layers that are recomputed keep from their forward, away from the device or cut over the tensor group, as ZeRO-R
// does (arXiv 1910.02054, section 6.1; Pa and Pa+cpu), and where it comes back for their backward.
#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "lower/pass_tasks.hpp"
#include "lower/step_emitter.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

class Checkpoints {
 public:
  Checkpoints(ProgramDraft& draft, PassTasks& tasks);

  bool active() const { return cut_ > 1 || tier_ != Tier::device; }
  // Around a part of a pass: what it waits for besides, and after its last task.
  void before(const graph::Coordinates& at, std::size_t use, std::vector<LocalTask>& waits);
  void after(const graph::Coordinates& at, std::size_t use, LocalTask done);

 private:
  struct Kept {
    Bytes size;  // of the whole
    LocalTask since;
    BufferId where;  // it, or its slice where it is cut
  };
  bool keeps(const graph::Coordinates& at, std::size_t use) const;
  const models::Training& training() const { return draft_.pipe.plan->job.training; }
  Bytes slice(Bytes whole) const { return Bytes(whole.count() / cut_); }

  ProgramDraft& draft_;
  PassTasks& tasks_;
  Tiers tiers_;
  const Tier tier_;
  const std::int64_t cut_;                                                      // tensor ranks that share one
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, Kept> kept_;  // by stage, micro-batch and use
  std::vector<LocalTask> computed_;                                             // parts, in the rank's order
};

}  // namespace rehearsal::lower
