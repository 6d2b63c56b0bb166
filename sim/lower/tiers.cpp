#include "lower/tiers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

}  // namespace

LocalTask Tiers::copy(Bytes size, Tier from, Tier to, const Coordinates& at, std::vector<LocalTask> after,
                      const std::vector<BufferUse>& uses, std::uint32_t turns) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  const auto work = draft_.works.intern(graph::Copy{size, from, to, turns});
  return draft_.program.add({work, graph::lane_between(from, to), at}, after, uses);
}

BufferId Tiers::staging(Bytes size, MemoryCategory as) {
  return draft_.program.buffer({.size = size, .category = as, .tier = Tier::host});
}

Tiers::Fetched Tiers::fetch(Tier from, Bytes size, MemoryCategory as, const Coordinates& at, const When& when,
                            std::uint32_t turns, std::optional<BufferId> leaves) {
  auto before = when.copy;
  const BufferId buffer = draft_.program.buffer({size, as});
  if (from == Tier::nvme) {
    const BufferId staged = staging(size, as);
    std::vector<BufferUse> uses{{staged, Access::allocate}};
    if (leaves) uses.emplace_back(*leaves, Access::free);
    before.push_back(copy(size, from, Tier::host, at, when.read, uses, turns));
    leaves = staged;
  }
  std::vector<BufferUse> uses{{buffer, Access::allocate}};
  if (leaves) uses.emplace_back(*leaves, Access::free);
  return {copy(size, Tier::host, Tier::device, at, std::move(before), uses, turns), buffer};
}

LocalTask Tiers::store(Tier to, Bytes size, MemoryCategory as, const Coordinates& at, std::vector<LocalTask> after,
                       const std::vector<BufferId>& sources, std::optional<BufferId> fills) {
  std::vector<BufferUse> uses;
  for (const BufferId source : sources) uses.emplace_back(source, Access::free);
  if (to == Tier::nvme) {
    const BufferId staged = staging(size, as);
    uses.emplace_back(staged, Access::allocate);
    after = {copy(size, Tier::device, Tier::host, at, std::move(after), uses)};
    uses = {{staged, Access::free}};
  }
  if (fills) uses.emplace_back(*fills, Access::allocate);
  return copy(size, to == Tier::nvme ? Tier::host : Tier::device, to, at, std::move(after), uses);
}

std::vector<LocalTask> Tiers::update(double parameters, Bytes traffic, const Coordinates& at, LocalTask after) {
  const auto states = plan::state_bytes(draft_.pipe.plan->job.training);
  const auto tiles = static_cast<std::size_t>(std::max(1., std::ceil(parameters / kTile)));
  const double in_tile = parameters / double(tiles);
  const auto of = [&](double per_parameter) { return bytes(in_tile * per_parameter); };
  // A delayed update uses the gradients of the previous step: they are on the host from the beginning.
  const auto complete = offload_.delayed_update ? std::vector<LocalTask>{} : std::vector{after};
  std::vector<LocalTask> written, ends;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    std::vector<LocalTask> ready = complete;
    std::vector<BufferUse> releases;
    if (offload_.gradients == Tier::device) {
      const BufferId here = staging(of(states.gradients), MemoryCategory::gradients);
      ready.push_back(copy(of(states.gradients), Tier::device, Tier::host, at, complete, {{here, Access::allocate}}));
      releases.emplace_back(here, Access::free);
    }
    auto room = complete;
    if (written.size() >= kTilesHeld) room.push_back(written[written.size() - kTilesHeld]);
    const auto read = [&](double per_parameter, MemoryCategory as) {
      const BufferId here = staging(of(per_parameter), as);
      ready.push_back(copy(of(per_parameter), Tier::nvme, Tier::host, at, room, {{here, Access::allocate}}));
      return here;
    };
    if (offload_.gradients == Tier::nvme)
      releases.emplace_back(read(states.gradients, MemoryCategory::gradients), Access::free);
    std::optional<BufferId> held;
    if (offload_.optimizer == Tier::nvme) held = read(states.optimizer, MemoryCategory::optimizer);
    const auto step = graph::HostStep{in_tile, bytes(double(traffic.count()) / double(tiles))};
    const LocalTask updated = draft_.program.add({draft_.works.intern(step), Lane::host, at}, ready, releases);
    LocalTask last = updated;
    if (held) last = copy(of(states.optimizer), Tier::host, Tier::nvme, at, {updated}, {{*held, Access::free}});
    written.push_back(last);
    ends.push_back(last);
    if (offload_.parameters == Tier::nvme)
      ends.push_back(copy(of(states.parameters), Tier::host, Tier::nvme, at, {updated}, {}));
    if (offload_.parameters == Tier::device)  // after the passes that use the older parameters
      ends.push_back(copy(of(states.parameters), Tier::host, Tier::device, at, {updated, after}, {}));
  }
  return ends;
}

std::vector<LocalTask> ended_before(const std::vector<LocalTask>& computed, std::int64_t ahead) {
  const auto parts = static_cast<std::size_t>(ahead) + 1;
  if (computed.size() < parts) return {};
  return {computed[computed.size() - parts]};
}

}  // namespace rehearsal::lower
