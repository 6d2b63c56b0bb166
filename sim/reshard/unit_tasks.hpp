// What must move: for every destination tile and every source tile that meets it, their intersection.
#pragma once
#include "reshard/sharding.hpp"

namespace rehearsal::reshard {

// One tensor from one mesh to another; the meshes share no device. Each numbers its devices from 0.
struct Resharding {
  Layout source, destination;
  std::vector<std::int64_t> shape;
};

// Any of `senders` holds the box, all of `receivers` need it (device ids of their meshes, ascending).
struct UnitTask {
  std::uint32_t destination_tile = 0;
  Box box;
  std::int64_t size = 0;  // elements
  std::vector<std::uint32_t> senders, receivers;
};

// Natural order: destination tiles as listed, for each the source tiles as listed (of a grid: row-major). The boxes of
// one destination tile are disjoint and make it up.
std::vector<UnitTask> unit_tasks(const std::vector<Tile>& source, const std::vector<Tile>& destination);
std::vector<UnitTask> unit_tasks(const Resharding& problem);

}  // namespace rehearsal::reshard
