#include "graph/validate.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "small.hpp"

namespace rehearsal::graph {
namespace {

std::string complaint(const TaskGraph& graph) {
  try {
    validate(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

// Two ranks; each first waits for the other's message, on its compute lane, and then sends: a deadlock.
TaskGraph deadlock() {
  GraphBuilder graph;
  const WorkId message = graph.intern(Message{.size = Bytes(8), .gathered = {}}), receive = graph.intern(Receive{});
  std::vector<RankId> ranks;
  for (std::uint16_t s = 0; s < 2; ++s) {
    ProgramBuilder p("p");
    const EndpointId in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send);
    p.add({receive, Lane::compute, at(Pass::forward, s, 0), in.value, {}});
    p.add({message, Lane::compute, at(Pass::forward, s, 0), out.value, {}});
    ranks.push_back(graph.add_rank(graph.add(std::move(p).finish())));
  }
  graph.connect(ranks[0], EndpointId(1), ranks[1], EndpointId(0));
  graph.connect(ranks[1], EndpointId(1), ranks[0], EndpointId(0));
  return std::move(graph).finish();
}

// One program with a buffer, whose three tasks use it in the given ways.
TaskGraph buffer_uses(const std::vector<Access>& uses) {
  GraphBuilder graph;
  const WorkId work = graph.intern(FixedDelay{});
  ProgramBuilder p("p");
  const BufferId buffer = p.buffer({Bytes(8), MemoryCategory::activations});
  for (Access access : uses)
    p.add({work, Lane::compute, {}, kNoEndpoint, {}}, {}, std::vector{BufferUse(buffer, access)});
  graph.add_rank(graph.add(std::move(p).finish()));
  return std::move(graph).finish();
}

}  // namespace

TEST_CASE("a sound graph passes") {
  CHECK(complaint(ping(4)) == "");
  CHECK(find_cycle(ping(4)).empty());
}

TEST_CASE("a cycle is printed task by task") {
  const auto cycle = find_cycle(deadlock());
  // receive 0 -> send 0 (one lane) -> receive 1 (channel) -> send 1 -> back to receive 0.
  REQUIRE(cycle.size() == 4);
  CHECK(cycle[0] == "rank 0: F0 s0 receive");
  CHECK(cycle[1] == "rank 0: F0 s0 send");
  CHECK(cycle[2] == "rank 1: F0 s1 receive");
  CHECK(cycle[3] == "rank 1: F0 s1 send");
  CHECK(complaint(deadlock()).find("rank 1: F0 s1 receive\n  rank 1: F0 s1 send") != std::string::npos);
}

TEST_CASE("two groups entered in opposite orders are a cycle") {
  GraphBuilder graph;
  const WorkId work = graph.intern(Collective{});
  ProgramBuilder p("p");
  const EndpointId a = p.endpoint(EndpointKind::group), b = p.endpoint(EndpointKind::group);
  p.add({work, Lane::tensor_comm, {}, a.value, {}});
  p.add({work, Lane::tensor_comm, {}, b.value, {}});
  const ProgramId program = graph.add(std::move(p).finish());
  const RankId r0 = graph.add_rank(program), r1 = graph.add_rank(program);
  graph.add_group(Axis::tensor, {{r0, a}, {r1, b}});
  graph.add_group(Axis::data, {{r0, b}, {r1, a}});
  const auto cycle = find_cycle(std::move(graph).finish());
  REQUIRE(cycle.size() == 2);
  CHECK(cycle[0] == "tensor[0] of ranks 0, 1: F0 s0 l0 all-reduce");
  CHECK(cycle[1] == "data[0] of ranks 0, 1: F0 s0 l0 all-reduce");
}

TEST_CASE("buffers live from their allocation to their only free") {
  using enum Access;
  CHECK(complaint(buffer_uses({allocate, write, free})) == "");
  CHECK(complaint(buffer_uses({allocate, read})) == "");  // lives to the end
  CHECK(complaint(buffer_uses({allocate, free, free})).find("frees a second time") != std::string::npos);
  CHECK(complaint(buffer_uses({allocate, free, read})).find("after it was freed") != std::string::npos);
  CHECK(complaint(buffer_uses({read, allocate, free})).find("before it was allocated") != std::string::npos);
  CHECK(complaint(buffer_uses({allocate, allocate, free})).find("allocates a second time") != std::string::npos);
}

TEST_CASE("members of a group must do the same work") {
  GraphBuilder graph;
  std::vector<GroupMember> members;
  for (int size : {8, 16}) {
    ProgramBuilder p("p");
    const EndpointId end = p.endpoint(EndpointKind::group);
    p.add({graph.intern(Collective{.size = Bytes(size), .group = {}}), Lane::compute, {}, end.value, {}});
    members.push_back({graph.add_rank(graph.add(std::move(p).finish())), end});
  }
  graph.add_group(Axis::tensor, members);
  CHECK(complaint(std::move(graph).finish()).find("group 'tensor', use 0") != std::string::npos);
}

TEST_CASE("hand-made programs are checked") {
  GraphBuilder graph;
  const WorkId work = graph.intern(FixedDelay{});
  ProgramBuilder builder("p");
  const EndpointId end = builder.endpoint(EndpointKind::group);
  builder.add({work, Lane::compute, {}, kNoEndpoint, {}});
  builder.add({work, Lane::compute, {}, end.value, {}});
  Program p = std::move(builder).finish();
  std::string expected;
  SUBCASE("an edge to a later task") {
    p.dependencies = {};
    p.dependencies.push_row(std::vector{LocalTask(1)});
    p.dependencies.push_row({});
    expected = "waits for a later task";
  }
  SUBCASE("an array that is too short") {
    p.lane.pop_back();
    expected = "differ in length";
  }
  SUBCASE("a wrong sequence number") {
    p.sequence[1] = 1;
    expected = "is not use 1 of endpoint 0";
  }
  const RankId rank = graph.add_rank(graph.add(std::move(p)));
  graph.add_group(Axis::data, {{rank, end}});
  CHECK(complaint(std::move(graph).finish()).find(expected) != std::string::npos);
}

}  // namespace rehearsal::graph
