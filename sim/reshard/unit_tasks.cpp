#include "reshard/unit_tasks.hpp"

#include <algorithm>

namespace rehearsal::reshard {

std::vector<UnitTask> unit_tasks(const Resharding& problem) {
  return unit_tasks(problem, tiles_of(problem.destination, problem.shape));
}

std::vector<UnitTask> unit_tasks(const Resharding& problem, const std::vector<Tile>& destination) {
  const auto sources = tiles_of(problem.source, problem.shape);
  const std::size_t rank = problem.shape.size();
  std::vector<UnitTask> tasks;
  for (std::size_t i = 0; i < destination.size(); i++) {
    const Tile& tile = destination[i];
    if (elements(tile.box) == 0) continue;
    // Source parts that the tile meets, per dimension: [first, last].
    std::vector<std::size_t> first(rank), last(rank), at;
    for (std::size_t d = 0; d < rank; d++) {
      const auto parts = std::int64_t(problem.source.parts(d)), length = (problem.shape[d] + parts - 1) / parts;
      first[d] = std::size_t(tile.box[d].low / length);
      last[d] = std::size_t((tile.box[d].high - 1) / length);
    }
    at = first;
    for (bool more = true; more;) {
      std::size_t index = 0;
      for (std::size_t d = 0; d < rank; d++) index = index * problem.source.parts(d) + at[d];
      UnitTask task{std::uint32_t(i), intersection(tile.box, sources[index].box), 0, sources[index].devices,
                    tile.devices};
      task.size = elements(task.box);
      tasks.push_back(std::move(task));
      more = false;
      for (std::size_t d = rank; d-- > 0;) {  // the next one, row-major
        if (at[d]++ < last[d]) {
          more = true;
          break;
        }
        at[d] = first[d];
      }
    }
  }
  return tasks;
}

}  // namespace rehearsal::reshard
