// Bytes of tokens on their way to experts, by hand.
#include "dispatch/traffic.hpp"

#include <doctest/doctest.h>

#include "dispatch/performable.hpp"
#include "graph/builder.hpp"

namespace rehearsal::dispatch {
namespace {

// 100 tokens of 16 bytes on each of four ranks, for 2 of 8 experts: 800 bytes to each rank if all are alike.
graph::Dispatch tokens(std::vector<double> loads, bool back) {
  return {.tokens = 100,
          .each = Bytes(16),
          .experts = 8,
          .per_token = 2,
          .two_hop = false,
          .group = {4, 1},
          .load = loads.empty() ? 1 : loads.front(),
          .loads = std::move(loads),
          .back = back};
}
graph::TaskGraph alone(const graph::Dispatch& work) {
  graph::GraphBuilder builder;
  graph::ProgramBuilder program("member");
  const auto endpoint = program.endpoint(graph::EndpointKind::group);
  program.add({builder.intern(work), graph::Lane::data_comm, {}, endpoint.value, {}});
  const auto id = builder.add(std::move(program).finish());
  std::vector<graph::GroupMember> members;
  for (int r = 0; r < 4; ++r) members.push_back({builder.add_rank(id), endpoint});
  builder.add_group(Axis::expert, std::move(members));
  return std::move(builder).finish();
}
std::vector<Lengths> lengths(const graph::Dispatch& work) {
  const auto graph = alone(work);
  std::vector<Lengths> all;
  for (std::uint32_t r = 0; r < 4; ++r) all.push_back(timed_lengths(graph, RankId(r), LocalTask(0)));
  return all;
}
using Sizes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("tokens for experts that are equally busy are an all-to-all") {
  for (const auto& one : lengths(tokens({}, false))) {
    CHECK(one.kind == CollectiveKind::all_to_all);
    CHECK(one.blocks.empty());
    CHECK(one.in == 4 * 800);
    CHECK(one.out == 4 * 800);
    CHECK(std::size_t(one.part) * 2 == 800);
  }
}

TEST_CASE("a rank gets as many rows as it is busy, from each, and sends as many back") {
  const auto there = lengths(tokens({2, 1, .75, .25}, false)), back = lengths(tokens({2, 1, .75, .25}, true));
  const Sizes all{1600, 800, 600, 200};
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(there[r].blocks.to == all);
    CHECK(there[r].blocks.from == Sizes(4, all[r]));
    CHECK(there[r].in == 3200);
    CHECK(there[r].out == 4 * all[r]);
    CHECK(back[r].blocks.to == there[r].blocks.from);
    CHECK(back[r].blocks.from == there[r].blocks.to);
  }
}

TEST_CASE("two hops are forwarded by kernels: over wires they are refused") {
  auto work = tokens({}, false);
  CHECK(!why_not_over_wires(alone(work), RankId(0)));
  work.two_hop = true;
  const auto why = why_not_over_wires(alone(work), RankId(0));
  REQUIRE(why);
  CHECK(why->find("two hops") != std::string::npos);
}

}  // namespace rehearsal::dispatch
