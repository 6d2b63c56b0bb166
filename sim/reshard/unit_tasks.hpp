// The data to be moved: the intersections of every destination tile with the source tiles that overlap it.
#pragma once
#include "reshard/sharding.hpp"

namespace rehearsal::reshard {

// One tensor moved between meshes without common devices. Each mesh numbers its devices from 0.
struct Resharding {
  Layout source, destination;
  std::vector<std::int64_t> shape;
};

// Any of `senders` holds the box; all of `receivers` need it (device ids within their meshes, ascending).
struct UnitTask {
  std::uint32_t destination_tile = 0;
  Box box;
  std::int64_t size = 0;  // elements
  std::vector<std::uint32_t> senders, receivers;
};

// Natural order: by destination tile, then by source tile, as listed (in a grid: row-major). The boxes of
// a destination tile are disjoint and cover it.
std::vector<UnitTask> unit_tasks(const std::vector<Tile>& source, const std::vector<Tile>& destination);
std::vector<UnitTask> unit_tasks(const Resharding& problem);

}  // namespace rehearsal::reshard
