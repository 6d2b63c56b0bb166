#include "lower/checkpoints.hpp"

#include <utility>

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;

Checkpoints::Checkpoints(ProgramDraft& draft, Rows rows, Sequencer* compute)
    : draft_(draft),
      rows_(std::move(rows)),
      compute_(compute),
      tiers_(draft, compute),
      tier_(draft.pipe.plan->job.training.checkpoints_on()),
      cut_(draft.pipe.plan->job.training.cuts_checkpoints() ? draft.pipe.plan->shard.tensor : 1) {}

void Checkpoints::open() {
  if (tier_ == Tier::nvme)
    pool_.open(draft_, tiers_.slots() + 1,
               {.size = slice(draft_.pipe.plan->message), .category = MemoryCategory::activations, .tier = Tier::host});
}

Tiers::StagedThrough Checkpoints::staged() {
  return compute_ ? Tiers::StagedThrough(&pool_) : Tiers::StagedThrough(MemoryCategory::activations);
}

bool Checkpoints::keeps(std::uint16_t layer) const {
  return active() && layer != graph::kNoLayer && draft_.pipe.plan->job.training.recomputes(layer);
}

LocalTask Checkpoints::keep(Key key, BufferId input, const Coordinates& at, LocalTask since) {
  Kept kept{draft_.program.buffer(input).size, since, input};
  if (cut_ > 1) {
    kept.part =
        draft_.program.buffer({.size = slice(kept.size),
                               .category = MemoryCategory::activations,
                               .contiguous = tier_ == Tier::device && draft_.pipe.plan->job.training.defragment});
    kept.since = since = rows_.own(input, kept.part, at);
  }
  if (tier_ != Tier::device) {
    kept.away =
        draft_.program.buffer({.size = slice(kept.size), .category = MemoryCategory::activations, .tier = tier_});
    kept.since =
        tiers_.leave(slice(kept.size), kept.part, {tier_, {*kept.away}}, true, at, {{kept.since}, {}}, staged());
  }
  kept_[key] = kept;
  return since;
}

void Checkpoints::begin(Key key, const Coordinates& at, const Tiers::When& when) {
  auto& kept = kept_.at(key);
  if (!kept.away || kept.copy) return;
  kept.part = draft_.program.buffer({slice(kept.size), MemoryCategory::activations});
  auto ready = when;
  ready.ready.push_back(kept.since);
  if (!compute_) ready.room.push_back(kept.since);
  kept.copy = tiers_.come(slice(kept.size), {tier_, {*kept.away}}, kept.part, at, std::move(ready), staged());
}

Checkpoints::Back Checkpoints::back(Key key, const Coordinates& at, std::vector<LocalTask> after,
                                    const Tiers::When& when) {
  begin(key, at, when);
  tiers_.settle(0, at);
  const Kept kept = kept_.extract(key).mapped();
  const LocalTask there = kept.copy.value_or(kept.since);
  std::vector<BufferUse> gone;  // freed by the compute lane
  if (compute_ && kept.copy) compute_->wait_for(there), gone.emplace_back(*kept.away, Access::free);
  if (cut_ == 1) {
    if (compute_) compute_->join(at, gone);
    return {there, kept.part};
  }
  const BufferId whole = draft_.program.buffer({kept.size, MemoryCategory::activations});
  after.push_back(there);
  return {rows_.all(kept.part, whole, at, std::move(after), gone), whole};
}

}  // namespace rehearsal::lower
