#include "lower/network_checkpoints.hpp"

#include "base/error.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;

NetworkCheckpoints::NetworkCheckpoints(ProgramDraft& draft, Sequencer& sequencer, Tiers& tiers)
    : draft_(draft),
      sequencer_(sequencer),
      tiers_(tiers),
      tier_(draft.pipe.plan->job.training.checkpoints_on()),
      cut_(draft.pipe.plan->job.training.cuts_checkpoints() ? draft.pipe.plan->shard.tensor : 1),
      leaving_(sequencer) {}

void NetworkCheckpoints::open() {
  if (tier_ == Tier::nvme)
    staged_.open(draft_, tiers_.slots() + 1,
                 {.size = part(), .category = MemoryCategory::activations, .tier = Tier::host});
}

bool NetworkCheckpoints::keeps(std::uint16_t layer) const {
  return (cut_ > 1 || tier_ != Tier::device) && layer != graph::kNoLayer &&
         draft_.pipe.plan->job.training.recomputes(layer);
}

void NetworkCheckpoints::keep(Key key, BufferId input, const Coordinates& at) {
  BufferId kept = input;
  if (cut_ > 1) {
    kept = draft_.program.buffer({part(), MemoryCategory::activations});
    const auto& network = draft_.pipe.plan->network();
    const std::int64_t columns = draft_.pipe.plan->job.model.hidden,
                       rows = part().count() / bytes_per_element(network.precision) / columns;
    const std::vector<BufferUse> uses{
        {kept, Access::allocate}, {input, Access::read}, {kept, Access::write}, {input, Access::free}};
    sequencer_.kernel({.kind = KernelKind::own_rows, .dims = {rows, columns, cut_}}, at, uses);
  }
  if (tier_ == Tier::device) {
    kept_[key] = {{Tier::device, {kept}}, {}, {}};
    return;
  }
  leaving_.settle(1, at);
  const TierBuffer home{
      tier_, {draft_.program.buffer({.size = part(), .category = MemoryCategory::activations, .tier = tier_})}};
  const BufferUse made(home.buffer(), Access::allocate);
  sequencer_.join(at, std::span(&made, 1));
  const auto way = tiers_.move(part(), {Tier::device, {kept}}, home, at, {sequencer_.so_far(), {}}, &staged_);
  leaving_.add(way.left, kept);
  kept_[key] = {home, way.there, {}};
}

void NetworkCheckpoints::begin(Key key, const Coordinates& at) {
  auto& kept = kept_.at(key);
  if (kept.home.tier == Tier::device || kept.copy) return;
  kept.part = draft_.program.buffer({part(), MemoryCategory::activations});
  const BufferUse made(kept.part, Access::allocate);
  const auto room = sequencer_.join(at, std::span(&made, 1));
  kept.copy = tiers_.move(part(), kept.home, {Tier::device, {kept.part}}, at, {{*kept.there}, {room}}, &staged_).there;
}

BufferId NetworkCheckpoints::back(Key key, const Coordinates& at) {
  begin(key, at);
  leaving_.settle(0, at);
  const Kept kept = kept_.extract(key).mapped();
  std::vector<BufferUse> gone;
  if (kept.copy) sequencer_.wait_for(*kept.copy), gone.emplace_back(kept.home.buffer(), Access::free);
  const BufferId part = kept.copy ? kept.part : kept.home.buffer();
  if (cut_ == 1) {
    sequencer_.join(at, gone);
    return part;
  }
  const BufferId all = draft_.program.buffer({whole(), MemoryCategory::activations});
  std::vector<BufferUse> uses{
      {all, Access::allocate}, {part, Access::read}, {all, Access::write}, {part, Access::free}};
  uses.insert(uses.end(), gone.begin(), gone.end());
  sequencer_.tensor_gather(whole(), at, uses);
  return all;
}

}  // namespace rehearsal::lower
