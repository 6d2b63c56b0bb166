#include "lower/checkpoints.hpp"

#include <algorithm>

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;
using graph::Pass;

Checkpoints::Checkpoints(Draft& draft, PassTasks& tasks)
    : draft_(draft),
      tasks_(tasks),
      tiers_(draft),
      tier_(draft.pipe.plan->job.training.checkpoints_on()),
      cut_(draft.pipe.plan->job.training.cuts_checkpoints() ? draft.pipe.plan->shard.tensor : 1) {}

// The ends of a model are not recomputed.
bool Checkpoints::keeps(const Coordinates& at, std::size_t use) const {
  const auto layer = draft_.pipe.parts.stages[at.stage].uses[use].layer;
  return active() && layer != graph::kNoLayer && draft_.pipe.plan->job.training.recomputes(layer);
}

void Checkpoints::after(const Coordinates& at, std::size_t use, LocalTask done) {
  if (!active()) return;
  computed_.push_back(done);
  if (at.pass != Pass::forward || !keeps(at, use)) return;
  auto& held = tasks_.input_of(at, use);
  if (!held) return;
  const BufferId whole = *held;
  held.reset();
  Kept kept{draft_.program.buffer(whole).size, {done, whole}};
  std::vector<BufferId> leaves{whole};
  if (cut_ > 1) {  // a copy of the own part
    const BufferId own = draft_.program.buffer({slice(kept.size), MemoryCategory::activations});
    const auto copy = draft_.works.intern(MemoryBound{Bytes(2 * slice(kept.size).count()), 1, Traffic::plain});
    kept.away.kept = draft_.program.add({copy, graph::Lane::compute, at}, {},
                                        std::vector<BufferUse>{{own, Access::allocate}, {whole, Access::free}});
    leaves = {own};
    computed_.back() = kept.away.kept;
  }
  kept.away.where = leaves.front();
  if (tier_ != Tier::device)
    kept.away = tiers_.send(tier_, slice(kept.size), MemoryCategory::activations, at, kept.away.kept, leaves);
  kept_[{at.stage, at.microbatch, use}] = kept;
}

// What must have ended before something that is so many parts ahead of the one that computes next.
std::vector<LocalTask> Checkpoints::started(std::int64_t ahead, LocalTask kept) const {
  std::vector<LocalTask> tasks{kept};
  const auto parts = static_cast<std::size_t>(ahead) + 1;
  if (computed_.size() >= parts) tasks.push_back(computed_[computed_.size() - parts]);
  return tasks;
}

void Checkpoints::before(const Coordinates& at, std::size_t use, std::vector<LocalTask>& waits) {
  if (!active() || (at.pass != Pass::backward && at.pass != Pass::input_gradient)) return;
  const auto found = kept_.extract({at.stage, at.microbatch, use});
  if (!found) return;
  const Kept& kept = found.mapped();
  const auto ahead = tiers_.offload().prefetch;
  Tiers::Fetched back{kept.away.kept, kept.away.where};
  if (tier_ != Tier::device)
    back =
        tiers_.bring_back(tier_, kept.away, at, {started(2 * ahead, kept.away.kept), started(ahead, kept.away.kept)});
  if (cut_ > 1) {
    const BufferId whole = draft_.program.buffer({kept.size, MemoryCategory::activations});
    const std::vector<BufferUse> uses{{whole, Access::allocate}, {back.buffer, Access::free}};
    waits.push_back(back.there);
    const auto gather =
        draft_.works.intern(graph::Collective{CollectiveKind::all_gather, kept.size, draft_.pipe.plan->tensor_group});
    back = {tasks_.tensor_collective(gather, at, waits, uses), whole};
    waits.clear();
  }
  waits.push_back(back.there);
  tasks_.input_of(at, use) = back.buffer;
}

}  // namespace rehearsal::lower
