#include "lower/host_updates.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;
using graph::MemoryCategory;
using graph::Pass;

namespace {

// One segment is being read, one updated, one written.
constexpr std::size_t kSegmentsHeld = 3;

}  // namespace

HostUpdates::HostUpdates(ProgramDraft& draft, Sequencer& sequencer, Tiers& tiers)
    : draft_(draft),
      sequencer_(sequencer),
      tiers_(tiers),
      offload_(tiers.offload()),
      policy_(plan::state_policy(*draft.pipe.plan)) {}

Precision HostUpdates::stored() const { return draft_.pipe.plan->network().precision; }
bool HostUpdates::has_master() const { return offload_.parameters == Tier::device || stored() != Precision::fp32; }

Coordinates HostUpdates::at(const ShardState& held, Pass pass) const {
  return {pass, held.stage, graph::kNoLayer, graph::kNoMicrobatch};
}

void HostUpdates::hold(ShardState& held) {
  const auto keep = [&](Bytes size) {
    return draft_.program.resident({.size = size, .category = MemoryCategory::optimizer, .tier = offload_.optimizer});
  };
  held.states = keep(floats(2 * held.shard()));
  if (has_master()) held.master = keep(floats(held.shard()));
}

void HostUpdates::open(std::span<const ShardState> all) {
  std::int64_t largest = 0;
  for (const ShardState& held : all) largest = std::max(largest, held.shard());
  const auto open = [&](BufferPool& room, bool needed, Bytes size, MemoryCategory category) {
    if (needed)
      room.open(draft_, std::min(kSegmentsHeld, all.size()), {.size = size, .category = category, .tier = Tier::host});
  };
  const bool disks = offload_.optimizer == Tier::nvme, narrow = stored() != Precision::fp32;
  open(gradients_, offload_.gradients != Tier::host, floats(largest), MemoryCategory::gradients);
  open(moments_, disks, floats(2 * largest), MemoryCategory::optimizer);
  open(masters_, disks && (has_master() || offload_.parameters == Tier::nvme), floats(largest),
       MemoryCategory::optimizer);
  open(results_, narrow && offload_.parameters != Tier::host && !late(), sized(largest, stored()),
       MemoryCategory::parameters);
  if (!late() || (!narrow && !disks)) return;
  for (const ShardState& held : all)
    returned_[held.described] = draft_.program.resident(
        {.size = sized(held.shard(), stored()), .category = MemoryCategory::parameters, .tier = Tier::host});
}

HostUpdates::Step HostUpdates::step(ShardState& held, const std::vector<LocalTask>& complete) {
  const auto here = at(held, Pass::optimizer);
  const bool narrow = stored() != Precision::fp32;
  Step result;
  std::vector<LocalTask> ready;
  std::vector<BufferUse> uses;

  const auto read = [&](BufferPool& room, const TierBuffer& from, Bytes size, const std::vector<LocalTask>& when,
                        std::optional<Axis> shard = {}) -> BufferPool::Slot* {
    auto& slot = room.next();
    auto after = slot.used;
    after.insert(after.end(), when.begin(), when.end());
    ready.push_back(tiers_.copy(size, from, {Tier::host, {slot.buffer}}, here, std::move(after), {1, shard}));
    return &slot;
  };

  BufferPool::Slot* gradient = nullptr;
  if (offload_.gradients == Tier::host) {
    ready = held.stored;
  } else {
    const bool of_all = offload_.gradients == Tier::device && held.shards > 1 && !policy_.shards_gradients;
    const auto& when = offload_.gradients == Tier::device ? complete : held.stored;
    gradient = read(gradients_, {offload_.gradients, {*held.gradients}}, floats(held.shard()), when,
                    of_all ? std::optional(held.replicas) : std::nullopt);
    if (offload_.gradients == Tier::device) result.left = ready.back();
    held.may_store = {ready.back()};
  }
  uses.emplace_back(gradient ? gradient->buffer : *held.gradients, Access::read);

  const bool disks = offload_.optimizer == Tier::nvme;
  BufferPool::Slot* const moments =
      disks ? read(moments_, {Tier::nvme, {*held.states}}, floats(2 * held.shard()), {}) : nullptr;
  uses.emplace_back(moments ? moments->buffer : *held.states, Access::write);

  const TierBuffer wide =
      held.master ? TierBuffer{offload_.optimizer, {*held.master}} : TierBuffer{offload_.parameters, {held.parameters}};
  BufferPool::Slot* const master = wide.tier == Tier::nvme ? read(masters_, wide, floats(held.shard()), {}) : nullptr;
  result.result = master ? master->buffer : wide.buffer(), result.slot = master;
  uses.emplace_back(result.result, Access::write);

  if (const auto kept = returned_.find(held.described); kept != returned_.end()) {
    result.result = kept->second, result.slot = nullptr;
  } else if (narrow && offload_.parameters == Tier::host) {
    result.result = held.parameters, result.slot = nullptr;
  } else if (narrow) {
    result.slot = &results_.next(), result.result = result.slot->buffer;
    ready.insert(ready.end(), result.slot->used.begin(), result.slot->used.end());
  }
  if (result.result != uses.back().id()) uses.emplace_back(result.result, Access::write);

  const std::int64_t each = 28 + (uses.size() > 3 ? bytes_per_element(stored()) : 0);  // cpu/host_adam.hpp
  std::sort(ready.begin(), ready.end());
  result.done = draft_.program.add(
      {draft_.works.intern(graph::HostStep{double(held.shard()), Bytes(each * held.shard()), stored(), late()}),
       Lane::host, here},
      ready, uses);
  draft_.program.host_step(held.described, result.done);
  if (gradient) gradient->used = {result.done};
  if (offload_.gradients == Tier::host) held.may_store = {result.done};
  const auto write = [&](BufferPool::Slot* slot, const TierBuffer& to, Bytes size) {
    if (slot) slot->used = {tiers_.copy(size, {Tier::host, {slot->buffer}}, to, here, {result.done})};
  };
  write(moments, {Tier::nvme, {*held.states}}, floats(2 * held.shard()));
  write(master, wide, floats(held.shard()));
  if (result.slot && result.slot != master) {
    result.slot->used = {result.done};
    if (offload_.parameters == Tier::nvme)
      write(result.slot, {Tier::nvme, {held.parameters}}, sized(held.shard(), stored()));
  }
  return result;
}

// With ZeRO-1 and 2 the device holds whole parameters, with ZeRO-3 its shard.
void HostUpdates::bring_back(ShardState& held, Step& step, std::vector<LocalTask> after) {
  if (offload_.parameters != Tier::device) return;
  after.push_back(step.done);
  const bool whole = held.shards > 1 && policy_.gathers_updated();
  step.back = tiers_.copy(sized(held.shard(), stored()), {Tier::host, {step.result}}, {Tier::device, {held.parameters}},
                          at(held, Pass::optimizer), std::move(after),
                          {1, whole ? std::optional(held.replicas) : std::nullopt});
  if (step.slot) step.slot->used.push_back(*step.back);
}

void HostUpdates::begin(std::span<ShardState> all) {
  if (!active() || !late()) return;
  for (ShardState& held : all) late_[held.described] = step(held, {});
}

void HostUpdates::finish(std::span<ShardState> all) {
  const auto complete = sequencer_.so_far();
  std::vector<Step> steps;
  for (ShardState& held : all) {
    steps.push_back(late() ? late_.at(held.described) : step(held, complete));
    bring_back(held, steps.back(), complete);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ShardState& held = all[i];
    if (!steps[i].left) continue;
    sequencer_.wait_for(*steps[i].left);
    const BufferUse gradient(*held.gradients, Access::write);
    sequencer_.kernel({.kind = KernelKind::clear, .dims = {policy_.shards_gradients ? held.shard() : held.elements}},
                      at(held, Pass::optimizer), std::span(&gradient, 1));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ShardState& held = all[i];
    if (steps[i].back) sequencer_.wait_for(*steps[i].back);
    if (held.shards > 1 && policy_.gathers_updated()) {
      const BufferUse parameters(held.parameters, Access::write);
      sequencer_.collective(CollectiveKind::all_gather, stored(), held.elements, at(held, Pass::parameter_gather),
                            std::span(&parameters, 1), held.replicas);
    }
  }
}

}  // namespace rehearsal::lower
