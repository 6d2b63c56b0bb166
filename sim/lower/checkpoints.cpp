#include "lower/checkpoints.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;
using graph::Pass;

Checkpoints::Checkpoints(ProgramDraft& draft, PassTasks& tasks)
    : draft_(draft),
      tasks_(tasks),
      tiers_(draft),
      tier_(draft.pipe.plan->job.training.checkpoints_on()),
      cut_(draft.pipe.plan->job.training.cuts_checkpoints() ? draft.pipe.plan->shard.tensor : 1) {}

// Embedding and head are never recomputed.
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
  Kept kept{draft_.program.buffer(whole).size, done, whole};
  if (cut_ > 1) {  // copy out this rank's slice
    kept.where = draft_.program.buffer({.size = slice(kept.size),
                                        .category = MemoryCategory::activations,
                                        .contiguous = tier_ == Tier::device && training().defragment});
    const auto copy = draft_.works.intern(MemoryBound{Bytes(2 * slice(kept.size).count()), 1, Traffic::plain});
    kept.since = draft_.program.add({copy, graph::Lane::compute, at}, {},
                                    std::vector<BufferUse>{{kept.where, Access::allocate}, {whole, Access::free}});
    computed_.back() = kept.since;
  }
  if (tier_ != Tier::device) {
    const BufferId away =
        draft_.program.buffer({.size = slice(kept.size), .category = MemoryCategory::activations, .tier = tier_});
    kept.since = tiers_
                     .move(slice(kept.size), {Tier::device, {kept.where}}, {tier_, {away}}, at, {{kept.since}, {}},
                           MemoryCategory::activations)
                     .there;
    kept.where = away;
  }
  kept_[{at.stage, at.microbatch, use}] = kept;
}

void Checkpoints::before(const Coordinates& at, std::size_t use, std::vector<LocalTask>& waits) {
  if (!active() || (at.pass != Pass::backward && at.pass != Pass::input_gradient)) return;
  const auto found = kept_.extract({at.stage, at.microbatch, use});
  if (!found) return;
  const Kept& kept = found.mapped();
  LocalTask there = kept.since;
  BufferId back = kept.where;
  if (tier_ != Tier::device) {
    const auto when = [&](std::int64_t ahead) {
      auto tasks = ended_before(computed_, ahead);
      tasks.push_back(kept.since);
      return tasks;
    };
    const auto ahead = tiers_.offload().prefetch;
    back = draft_.program.buffer({slice(kept.size), MemoryCategory::activations});
    const Tiers::When free{tier_ == Tier::nvme ? when(2 * ahead) : std::vector<LocalTask>{}, when(ahead)};
    there = tiers_
                .move(slice(kept.size), {tier_, {kept.where}}, {Tier::device, {back}}, at, free,
                      MemoryCategory::activations)
                .there;
  }
  if (cut_ > 1) {
    const BufferId whole = draft_.program.buffer({kept.size, MemoryCategory::activations});
    const std::vector<BufferUse> uses{{whole, Access::allocate}, {back, Access::free}};
    waits.push_back(there);
    const auto gather =
        draft_.works.intern(graph::Collective{CollectiveKind::all_gather, kept.size, draft_.pipe.plan->tensor_group});
    there = tasks_.tensor_collective(gather, at, waits, uses), back = whole;
    waits.clear();
  }
  waits.push_back(there);
  tasks_.input_of(at, use) = back;
}

}  // namespace rehearsal::lower
