#include "timeline/twins.hpp"

#include <doctest/doctest.h>

#include "small.hpp"

namespace rehearsal::timeline {

TEST_CASE("ranks are twins when program and all spans are equal") {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::FixedDelay{});
  std::vector<ProgramId> programs;
  for (const char* name : {"a", "b"}) {
    graph::ProgramBuilder program(name);
    program.add(task(work, Lane::compute));
    programs.push_back(builder.add(std::move(program).finish()));
  }
  // Ranks 0, 1, 2, 4 run a, rank 3 runs b, one task each. Rank 1 does as rank 0; rank 2 starts as they do and ends
  // later, as rank 4; rank 3 has the times of rank 0 but another program.
  for (const std::size_t program : {0, 0, 0, 1, 0}) builder.add_rank(programs[program]);
  const auto graph = std::move(builder).finish();
  const Timeline timeline = spans({{1, 5}, {1, 5}, {1, 6}, {1, 5}, {1, 6}});
  CHECK(identical_ranks(graph, timeline) == std::vector<RankId>{RankId(0), RankId(0), RankId(2), RankId(3), RankId(2)});
}

}  // namespace rehearsal::timeline
