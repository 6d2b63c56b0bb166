// What layers keep for their backward and a framework copies to the host meanwhile (models::Training::share_away):
// behind the forward of each layer, and back ahead of its backward.
#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "lower/pass_tasks.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

class KeptAway {
 public:
  KeptAway(ProgramDraft& draft, PassTasks& tasks) : draft_(draft), tasks_(tasks), tiers_(draft) {}

  bool active() const { return draft_.pipe.plan->job.training.share_away(0) > 0; }
  // keep() follows the forward of a use, which ends with `since`. bring() precedes its backward, which waits for it;
  // `room`: what the copy back waits for.
  void keep(const graph::Coordinates& at, std::size_t use, LocalTask since);
  void bring(const graph::Coordinates& at, std::size_t use, std::vector<LocalTask>& waits, std::vector<LocalTask> room);

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::size_t>;  // stage, micro-batch or piece of one, use
  struct Kept {
    BufferId away;
    LocalTask since;
    std::vector<graph::Buffer> here;  // as they were, in the order of PassTasks::leaving_of
  };

  ProgramDraft& draft_;
  PassTasks& tasks_;
  Tiers tiers_;
  std::map<Key, Kept> kept_;
};

}  // namespace rehearsal::lower
