#include "lower/tiers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/range.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::Lane;
using graph::MemoryCategory;

namespace {

// The unit of a host update, so that copies and disks work meanwhile: DeepSpeed's TILE (csrc/includes/ cpu_adam.h), 128
// Mi elements.
constexpr double kTile = 128. * 1024 * 1024;
// How many tiles the reader of states may be ahead of their writer: one is read, one updated, one written
// (pipelined_optimizer_swapper.py).
constexpr std::size_t kTilesHeld = 3;

void add(std::vector<LocalTask>& to, const std::vector<LocalTask>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

void BufferPool::open(ProgramDraft& draft, std::size_t slots, const graph::Buffer& each) {
  if (each.size == Bytes{}) return;
  for (std::size_t i = 0; i < slots; ++i) slots_.push_back({draft.program.resident(each), {}});
}

BufferPool::Slot& BufferPool::next() {
  INVARIANT(!slots_.empty(), "room is opened before it is used");
  return slots_[at_++ % slots_.size()];
}

LocalTask Tiers::copy(Bytes size, const TierBuffer& from, const TierBuffer& to, const Coordinates& at,
                      std::vector<LocalTask> after, const CopyWay& through) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  const bool performed = draft_.pipe.plan->performed();
  std::vector<BufferUse> uses;
  const auto use = [&](const TierBuffer& end, Access priced, Access copied) {
    for (const BufferId buffer : end.buffers) uses.emplace_back(buffer, performed ? copied : priced);
  };
  // As operands, what is read comes first; else the buffer that is nearer to the device.
  const bool fills_first = !performed && to.tier < from.tier;
  if (fills_first) use(to, Access::allocate, Access::write);
  use(from, Access::free, Access::read);
  if (!fills_first) use(to, Access::allocate, Access::write);
  const graph::Copy work{size, from.tier, to.tier, through.turns, through.shard};
  return draft_.program.add({draft_.works.intern(work), graph::lane_between(from.tier, to.tier), at}, after, uses);
}

Tiers::Moved Tiers::move(Bytes size, const TierBuffer& from, const TierBuffer& to, const Coordinates& at, When when,
                         StagedThrough staged, const CopyWay& through) {
  if (from.tier != Tier::nvme && to.tier != Tier::nvme) {
    add(when.ready, when.room);
    const auto there = copy(size, from, to, at, std::move(when.ready), through);
    return {there, there};
  }
  auto* const pool = std::get_if<BufferPool*>(&staged);
  auto* const slot = pool ? &(*pool)->next() : nullptr;
  const auto fresh = [&] {
    return draft_.program.buffer({.size = size, .category = std::get<MemoryCategory>(staged), .tier = Tier::host});
  };
  const TierBuffer host{Tier::host, {slot ? slot->buffer : fresh()}};
  if (slot) add(when.ready, slot->used);
  const auto left = copy(size, from, host, at, std::move(when.ready), through);
  when.room.push_back(left);
  const auto there = copy(size, host, to, at, std::move(when.room), {through.turns});
  if (slot) slot->used = {there};
  return {left, there};
}

LocalTask Tiers::leave(Bytes size, BufferId from, const TierBuffer& to, bool fresh, const Coordinates& at, When when,
                       StagedThrough staged, const CopyWay& through) {
  if (!compute_) return move(size, {Tier::device, {from}}, to, at, std::move(when), staged, through).there;
  settle(1, at);
  const BufferUse made(to.buffer(), Access::allocate);
  if (fresh) compute_->join(at, std::span(&made, 1));
  const auto moved =
      move(size, {Tier::device, {from}}, to, at, {compute_->so_far(), std::move(when.room)}, staged, through);
  leaving_.emplace_back(moved.left, from);
  return moved.there;
}

LocalTask Tiers::come(Bytes size, const TierBuffer& from, BufferId to, const Coordinates& at, When when,
                      StagedThrough staged) {
  const BufferUse made(to, Access::allocate);
  if (compute_) when.room.push_back(compute_->join(at, std::span(&made, 1)));
  return move(size, from, {Tier::device, {to}}, at, std::move(when), staged).there;
}

void Tiers::settle(std::size_t but, const Coordinates& at) {
  while (leaving_.size() > but) {
    const auto [left, buffer] = leaving_.front();
    leaving_.pop_front();
    compute_->wait_for(left);
    const BufferUse gone(buffer, Access::free);
    compute_->join(at, std::span(&gone, 1));
  }
}

std::vector<LocalTask> update_on_host(ProgramDraft& draft, double parameters, Bytes traffic, const Coordinates& at,
                                      LocalTask after) {
  Tiers tiers(draft);
  const auto& offload = tiers.offload();
  const auto states = plan::state_bytes(draft.pipe.plan->job.training);
  const auto tiles = static_cast<std::size_t>(std::max(1., std::ceil(parameters / kTile)));
  const double in_tile = parameters / double(tiles);
  const auto of = [&](double per_parameter) { return bytes(in_tile * per_parameter); };
  // A delayed update uses the gradients of the previous step: they are on the host from the beginning.
  const auto complete = offload.delayed_update ? std::vector<LocalTask>{} : std::vector{after};
  const auto staging = [&](double per_parameter, MemoryCategory as) {
    return TierBuffer{Tier::host,
                      {draft.program.buffer({.size = of(per_parameter), .category = as, .tier = Tier::host})}};
  };
  std::vector<LocalTask> written, ends;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    std::vector<LocalTask> ready = complete;
    std::vector<BufferUse> releases;
    if (offload.gradients == Tier::device) {
      const auto here = staging(states.gradients, MemoryCategory::gradients);
      ready.push_back(tiers.copy(of(states.gradients), {Tier::device}, here, at, complete));
      releases.emplace_back(here.buffer(), Access::free);
    }
    auto room = complete;
    if (written.size() >= kTilesHeld) room.push_back(written[written.size() - kTilesHeld]);
    const auto read = [&](double per_parameter, MemoryCategory as) {
      const auto here = staging(per_parameter, as);
      ready.push_back(tiers.copy(of(per_parameter), {Tier::nvme}, here, at, room));
      return here;
    };
    if (offload.gradients == Tier::nvme)
      releases.emplace_back(read(states.gradients, MemoryCategory::gradients).buffer(), Access::free);
    std::optional<TierBuffer> held;
    if (offload.optimizer == Tier::nvme) held = read(states.optimizer, MemoryCategory::optimizer);
    const auto step = graph::HostStep{in_tile, bytes(double(traffic.count()) / double(tiles))};
    const LocalTask updated = draft.program.add({draft.works.intern(step), Lane::host, at}, ready, releases);
    LocalTask last = updated;
    if (held) last = tiers.copy(of(states.optimizer), *held, {Tier::nvme}, at, {updated});
    written.push_back(last);
    ends.push_back(last);
    const auto hand_back = [&](Tier to, std::vector<LocalTask> when) {
      ends.push_back(tiers.copy(of(states.parameters), {Tier::host}, {to}, at, std::move(when)));
    };
    if (offload.parameters == Tier::nvme) hand_back(Tier::nvme, {updated});
    if (offload.parameters == Tier::device)
      hand_back(Tier::device, {updated, after});  // after passes that use the older
  }
  return ends;
}

std::vector<LocalTask> ended_before(const std::vector<LocalTask>& computed, std::int64_t ahead) {
  const auto parts = static_cast<std::size_t>(ahead) + 1;
  if (computed.size() < parts) return {};
  return {computed[computed.size() - parts]};
}

}  // namespace rehearsal::lower
