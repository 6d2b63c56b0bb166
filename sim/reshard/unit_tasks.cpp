#include "reshard/unit_tasks.hpp"

namespace rehearsal::reshard {

std::vector<UnitTask> unit_tasks(const Resharding& problem) {
  return unit_tasks(tiles_of(problem.source, problem.shape), tiles_of(problem.destination, problem.shape));
}

std::vector<UnitTask> unit_tasks(const std::vector<Tile>& source, const std::vector<Tile>& destination) {
  std::vector<UnitTask> tasks;
  for (std::uint32_t i = 0; i < destination.size(); i++)
    for (const Tile& from : source) {
      Box box = intersection(destination[i].box, from.box);
      if (const auto size = elements(box); size > 0)
        tasks.push_back({i, std::move(box), size, from.devices, destination[i].devices});
    }
  return tasks;
}

}  // namespace rehearsal::reshard
