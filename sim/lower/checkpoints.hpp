// Inputs of recomputed layers between forward and backward, if they are offloaded or sharded over the tensor group as
// in ZeRO-R (arXiv 1910.02054, section 6.1; Pa and Pa+cpu).
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
  // Called around a part of a pass: before() adds to what its first task waits for; after() follows its last task.
  void before(const graph::Coordinates& at, std::size_t use, std::vector<LocalTask>& waits);
  void after(const graph::Coordinates& at, std::size_t use, LocalTask done);

 private:
  struct Kept {
    Bytes size;  // of the whole input
    LocalTask since;
    BufferId where;  // the input, or this rank's slice if it is sharded
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
  std::vector<LocalTask> computed_;                                             // last tasks of parts, in order
};

}  // namespace rehearsal::lower
