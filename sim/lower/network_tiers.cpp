#include "lower/network_tiers.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;

void BufferPool::open(ProgramDraft& draft, std::size_t slots, const graph::Buffer& each) {
  if (each.size == Bytes{}) return;
  for (std::size_t i = 0; i < slots; ++i) slots_.push_back({draft.program.resident(each), {}});
}

BufferPool::Slot& BufferPool::next() {
  INVARIANT(!slots_.empty(), "room is opened before it is used");
  return slots_[at_++ % slots_.size()];
}

void PendingOffload::settle(std::size_t but, const Coordinates& at) {
  while (under_way_.size() > but) {
    const auto [left, buffer] = under_way_.front();
    under_way_.erase(under_way_.begin());
    sequencer_.wait_for(left);
    const BufferUse gone(buffer, Access::free);
    sequencer_.join(at, std::span(&gone, 1));
  }
}

LocalTask NetworkTiers::copy(Bytes size, TierBuffer from, TierBuffer to, const Coordinates& at,
                             std::vector<LocalTask> after, std::optional<Axis> shard) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  graph::Copy work{size, from.tier, to.tier};
  work.shard = shard;
  const std::vector<BufferUse> uses{{from.buffer, Access::read}, {to.buffer, Access::write}};
  return draft_.program.add({draft_.works.intern(work), graph::lane_between(from.tier, to.tier), at}, after, uses);
}

namespace {
void add(std::vector<LocalTask>& to, const std::vector<LocalTask>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
}  // namespace

LocalTask NetworkTiers::fetch(Bytes size, TierBuffer from, BufferId to, const Coordinates& at,
                              std::vector<LocalTask> ready, std::vector<LocalTask> room, BufferPool& staged) {
  if (from.tier != Tier::nvme) {
    add(ready, room);
    return copy(size, from, {Tier::device, to}, at, std::move(ready));
  }
  auto& slot = staged.next();
  add(ready, slot.used);
  const TierBuffer here{Tier::host, slot.buffer};
  room.push_back(copy(size, from, here, at, std::move(ready)));
  slot.used = {copy(size, here, {Tier::device, to}, at, std::move(room))};
  return slot.used.front();
}

NetworkTiers::Stored NetworkTiers::store(Bytes size, BufferId from, TierBuffer to, const Coordinates& at,
                                         std::vector<LocalTask> ready, std::vector<LocalTask> room, BufferPool& staged,
                                         std::optional<Axis> shard) {
  const TierBuffer source{Tier::device, from};
  if (to.tier != Tier::nvme) {
    add(ready, room);
    const auto there = copy(size, source, to, at, std::move(ready), shard);
    return {there, there};
  }
  auto& slot = staged.next();
  add(ready, slot.used);
  const TierBuffer here{Tier::host, slot.buffer};
  const auto left = copy(size, source, here, at, std::move(ready), shard);
  room.push_back(left);
  slot.used = {copy(size, here, to, at, std::move(room))};
  return {left, slot.used.front()};
}

}  // namespace rehearsal::lower
