// Which rank has which part of the activation at a stage boundary, by hand.
#include "plan/stage_boundaries.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using reshard::Box;

namespace {

Mesh mesh(const StageLayout& l) {
  return Mesh({std::uint32_t(l.tensor), std::uint32_t(l.context), std::uint32_t(l.data), 1});
}
StageBoundary border(const StageLayout& l, const BoundaryShape& shape, bool balanced = false) {
  return stage_boundary_of(l, mesh(l), shape, balanced);
}

}  // namespace

TEST_CASE("replicas have sequences, tensor ranks the same, context ranks tokens") {
  const auto data = border({.tensor = 2, .data = 2}, {4, 8, 16});
  REQUIRE(data.held.size() == 4);
  CHECK(data.held[0][0].box == Box{{0, 2}, {0, 8}, {0, 16}});
  CHECK(data.held[1][0].box == data.held[0][0].box);
  CHECK(data.held[2][0].box == Box{{2, 4}, {0, 8}, {0, 16}});
  // Two pieces each, the first and the last for the first rank: token 6 of sequence 1 is row 1 x 4 + 2 + (6 - 6).
  const auto context = border({.context = 2}, {2, 8, 16}, true);
  REQUIRE(context.held[0].size() == 2);
  CHECK(context.held[0][0].box == Box{{0, 2}, {0, 2}, {0, 16}});
  CHECK(context.held[0][1].box == Box{{0, 2}, {6, 8}, {0, 16}});
  CHECK(context.held[0][1].first == 2);
  CHECK(context.held[0][1].per_sequence == 4);
  CHECK(context.held[1][1].box == Box{{0, 2}, {4, 6}, {0, 16}});
}

TEST_CASE("sequence parallelism cuts rows, wherever sequences end") {
  // 3 sequences of 4 tokens over 2 ranks: rank 0 has the first sequence and half of the second.
  const auto rows = border({.tensor = 2, .sequence = true}, {3, 4, 8});
  REQUIRE(rows.held[0].size() == 2);
  CHECK(rows.held[0][0].box == Box{{0, 1}, {0, 4}, {0, 8}});
  CHECK(rows.held[0][1].box == Box{{1, 2}, {0, 2}, {0, 8}});
  CHECK(rows.held[0][1].first == 4);
  CHECK(rows.held[1][0].box == Box{{1, 2}, {2, 4}, {0, 8}});
  CHECK(rows.held[1][1].first == 2);
}

TEST_CASE("shardings: parts that a tensor group gathers, and those that do not fit") {
  StageLayout layout{.tensor = 2, .data = 2};
  layout.sharding = reshard::parse_spec("S0RS1");
  const auto parts = border(layout, {4, 8, 16});
  CHECK(parts.own[1][0] == Box{{0, 2}, {0, 8}, {8, 16}});
  CHECK(parts.gather == std::vector<std::vector<std::uint32_t>>{{0, 1}, {2, 3}});
  layout.sharding = reshard::parse_spec("S0RR");
  CHECK(border(layout, {4, 8, 16}).gather.empty());
  const auto refused = [&](const char* spec, const char* why) {
    layout.sharding = reshard::parse_spec(spec);
    CHECK_THROWS_WITH_AS(border(layout, {4, 8, 16}), doctest::Contains(why), UserError);
  };
  refused("RRR", "that it does not compute with");
  refused("RS0R", "that it does not compute with");
  refused("S0R", "is of 2 dimensions");
}
