#include "lower/kept_away.hpp"

#include <utility>

namespace rehearsal::lower {

using graph::Coordinates;

void KeptAway::keep(const Coordinates& at, std::size_t use, LocalTask since) {
  const auto layer = draft_.pipe.parts.stages[at.stage].uses[use].layer;
  if (at.pass != graph::Pass::forward || layer == graph::kNoLayer) return;
  if (draft_.pipe.plan->job.training.share_away(layer) <= 0) return;
  Kept kept{{}, since, {}};
  TierBuffer here;
  Bytes size{};
  for (auto* slot : tasks_.leaving_of(at, use)) {
    const BufferId id = *std::exchange(*slot, std::nullopt);
    kept.here.push_back(draft_.program.buffer(id));
    here.buffers.push_back(id), size += kept.here.back().size;
  }
  if (size == Bytes{}) return;
  kept.away = draft_.program.buffer({.size = size, .category = graph::MemoryCategory::activations, .tier = Tier::host});
  kept.since = tiers_.copy(size, here, {Tier::host, {kept.away}}, at, {since});
  kept_[{at.stage, at.microbatch, use}] = std::move(kept);
}

void KeptAway::bring(const Coordinates& at, std::size_t use, std::vector<LocalTask>& waits,
                     std::vector<LocalTask> room) {
  if (at.pass != graph::Pass::backward && at.pass != graph::Pass::input_gradient) return;
  const auto found = kept_.extract({at.stage, at.microbatch, use});
  if (!found) return;
  const Kept& kept = found.mapped();
  TierBuffer here;
  Bytes size{};
  const auto slots = tasks_.leaving_of(at, use);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    here.buffers.push_back(draft_.program.buffer(kept.here[i]));
    *slots[i] = here.buffers.back(), size += kept.here[i].size;
  }
  room.push_back(kept.since);
  waits.push_back(tiers_.copy(size, {Tier::host, {kept.away}}, here, at, std::move(room)));
}

}  // namespace rehearsal::lower
