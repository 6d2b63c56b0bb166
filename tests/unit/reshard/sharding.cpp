// Specs, tiles and unit tasks, solved by hand.
#include "reshard/sharding.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "reshard/unit_tasks.hpp"

using namespace rehearsal;
using namespace rehearsal::reshard;
using Ids = std::vector<std::uint32_t>;

TEST_CASE("specs are read and written") {
  for (const char* text : {"R", "S0RR", "RS1", "S01R", "RS10R", "S0S1", "S1S0"})
    CHECK(to_text(parse_spec(text)) == text);
  const auto refused = [](const char* text, const char* rule) {
    CAPTURE(text);
    try {
      parse_spec(text);
      FAIL("read");
    } catch (const UserError& error) {
      CHECK_MESSAGE(std::string(error.what()).find(rule) != std::string::npos, error.what());
    }
  };
  refused("", "an empty spec");
  refused("S0S0R", "names mesh axis 0 twice");
  refused("S01S1", "names mesh axis 1 twice");
  refused("S11", "names mesh axis 1 twice");
  refused("S2R", "names mesh axis 2");
  refused("SR", "'S' without an axis");
  refused("RXR", "'X' at place 2");
  refused("R0", "'0' at place 2");
  refused("r", "'r' at place 1");
}

TEST_CASE("tiles: replicas and places") {
  // On 2 x 4, S0 leaves the four GPUs of a host as replicas, S1 one GPU per host.
  const auto rows = tiles_of({{2, 4}, parse_spec("S0R")}, {6, 5});
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].box == Box{{3, 6}, {0, 5}});
  CHECK(rows[1].devices == Ids{4, 5, 6, 7});
  const auto columns = tiles_of({{2, 4}, parse_spec("S1R")}, {8, 5});
  REQUIRE(columns.size() == 4);
  CHECK(columns[2].devices == Ids{2, 6});
  CHECK(columns[2].box == Box{{4, 6}, {0, 5}});
  // S01: part row * 4 + column; S10: column * 2 + row. Device 5 is row 1, column 1.
  CHECK(tiles_of({{2, 4}, parse_spec("S01")}, {8})[5].devices == Ids{5});
  CHECK(tiles_of({{2, 4}, parse_spec("S10")}, {8})[3].devices == Ids{5});
  // Two dimensions: row-major over the grid.
  CHECK(tiles_of({{2, 4}, parse_spec("S1S0")}, {8, 2})[3].devices == Ids{5});
}

TEST_CASE("uneven shards: parts of ceil(n / p), the last ones shorter or empty") {
  // 10 in 4 parts: 3 3 3 1. 5 in 4 parts: 2 2 1 0.
  const auto ten = tiles_of({{1, 4}, parse_spec("S1")}, {10});
  CHECK(ten[2].box == Box{{6, 9}});
  CHECK(ten[3].box == Box{{9, 10}});
  const auto five = tiles_of({{1, 4}, parse_spec("S1")}, {5});
  CHECK(five[2].box == Box{{4, 5}});
  CHECK(elements(five[3].box) == 0);
  // 10 as 3 3 3 1 to 5 5: [0,3) [3,5) | [5,6) [6,9) [9,10).
  const auto tasks = unit_tasks({{{1, 4}, parse_spec("S1")}, {{2, 1}, parse_spec("S0")}, {10}});
  REQUIRE(tasks.size() == 5);
  CHECK(tasks[1].box == Box{{3, 5}});
  CHECK(tasks[2].box == Box{{5, 6}});
  CHECK(tasks[2].senders == Ids{1});
  CHECK(tasks[2].receivers == Ids{1});
  // Nothing is sent for an empty shard.
  CHECK(unit_tasks({{{1, 1}, parse_spec("R")}, {{1, 4}, parse_spec("S1")}, {5}}).size() == 3);
}

TEST_CASE("the boxes that a device receives make up its shard, whatever the meshes, specs and shape") {
  const char* const specs[] = {"RR", "S0R", "RS1", "S01R", "RS10", "S0S1", "S1S0"};
  std::size_t cases = 0;
  for (const Mesh from : {Mesh{1, 1}, Mesh{2, 3}, Mesh{4, 2}})
    for (const Mesh to : {Mesh{1, 3}, Mesh{3, 2}})
      for (const char* source : specs)
        for (const char* destination : specs) {
          const Resharding problem{{from, parse_spec(source)}, {to, parse_spec(destination)}, {7, 11}};
          // How often each element reaches each device.
          std::vector<std::vector<int>> received(to.devices(), std::vector<int>(77));
          for (const auto& task : unit_tasks(problem)) {
            CHECK(task.size == elements(task.box));
            for (const auto device : task.receivers)
              for (auto i = task.box[0].low; i < task.box[0].high; i++)
                for (auto j = task.box[1].low; j < task.box[1].high; j++) received[device][i * 11 + j]++;
          }
          bool once = true;
          for (const auto& tile : tiles_of(problem.destination, problem.shape))
            for (const auto device : tile.devices)
              for (std::int64_t i = 0; i < 7; i++)
                for (std::int64_t j = 0; j < 11; j++) {
                  const bool wanted =
                      i >= tile.box[0].low && i < tile.box[0].high && j >= tile.box[1].low && j < tile.box[1].high;
                  once = once && received[device][i * 11 + j] == (wanted ? 1 : 0);
                }
          CHECK(once);
          cases++;
        }
  CHECK(cases == 294);
}
