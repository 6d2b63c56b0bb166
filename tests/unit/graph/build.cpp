#include <doctest/doctest.h>

#include <set>

#include "base/error.hpp"
#include "small.hpp"

namespace rehearsal::graph {

TEST_CASE("equal works get equal ids in order of first appearance") {
  GraphBuilder graph;
  const WorkId gemm = graph.intern(Gemm{.m = 2, .n = 3, .k = 4});
  const WorkId wait = graph.intern(FixedDelay{seconds(1)});
  CHECK(graph.intern(Gemm{.m = 2, .n = 3, .k = 4}) == gemm);
  CHECK(graph.intern(Gemm{.m = 2, .n = 3, .k = 5}) == WorkId(2));
  CHECK(graph.intern(FixedDelay{seconds(1)}) == wait);
  CHECK(graph.intern(Sequence{{{gemm, 2, false}}}) == WorkId(3));
  CHECK(graph.intern(Sequence{{{gemm, 2, true}}}) == WorkId(4));  // recomputed: another work
  CHECK(graph.intern(Sequence{{{gemm, 2, false}}}) == WorkId(3));
}

TEST_CASE("tasks are numbered rank by rank and find their partner") {
  const TaskGraph graph = ping(3, 4);
  // 3 messages: 2 tasks on either side of each, 4 ranks represented by one.
  CHECK(graph.tasks() == 12);
  CHECK(graph.represented_tasks() == 48);
  CHECK(graph.rank_of(TaskId(5)) == RankId(0));
  CHECK(graph.rank_of(TaskId(6)) == RankId(1));
  CHECK(graph.local(TaskId(8)) == LocalTask(2));
  // Rank 0 does compute, send, compute, send, ...: its second send is local 3. Rank 1 does receive, compute, ...: its
  // second receive is local 2, that is task 6 + 2.
  CHECK(graph.partner(RankId(0), LocalTask(3)) == TaskId(8));
  CHECK(graph.partner(RankId(1), LocalTask(2)) == TaskId(3));
  CHECK(graph.label(RankId(0), LocalTask(3)) == "F1 s0 send");
  CHECK(graph.label(RankId(1), LocalTask(2)) == "F1 s1 receive");
  CHECK(graph.label(RankId(1), LocalTask(3)) == "F1 s1");
}

TEST_CASE("the digest follows the content") {
  CHECK(ping(3).digest() == ping(3).digest());
  CHECK(ping(3).digest() != ping(2).digest());
  CHECK(ping(3).digest() != ping(3, 2).digest());
}

TEST_CASE("every dim and offset of a kernel counts in the digest") {
  const auto digest = [](const Kernel& kernel) {
    GraphBuilder graph;
    graph.intern(kernel);
    return std::move(graph).finish().digest();
  };
  std::set<std::string> all{digest({})};
  for (std::size_t i = 0; i < KernelDims{}.size(); ++i) {
    Kernel kernel;
    kernel.dims[i] = 1;
    all.insert(digest(kernel));
  }
  for (std::size_t i = 0; i < kMostOperands; ++i) {
    Kernel kernel;
    kernel.offsets[i] = 1;
    all.insert(digest(kernel));
  }
  CHECK(all.size() == 1 + KernelDims{}.size() + kMostOperands);
}

TEST_CASE("a task of a coarse graph costs no more than 64 bytes") {
  // A compute or message task: work 4 + lane 1 + coordinates 12 + endpoint 4 + sequence 4, offsets of dependencies and
  // of buffer uses 4 + 4, about one dependency 4, half an endpoint entry 2: below 40; the fixed part vanishes.
  const TaskGraph graph = ping(1000);
  CHECK(double(graph.bytes()) / double(graph.tasks()) <= 42);
  CHECK(graph.programs()[0].fold.empty());
}

TEST_CASE("finish refuses open and unequal ends") {
  GraphBuilder graph;
  const WorkId work = graph.intern(FixedDelay{});
  auto program = [&](EndpointKind kind, int tasks) {
    ProgramBuilder p("p");
    const EndpointId end = p.endpoint(kind);
    for (int i = 0; i < tasks; ++i) p.add({work, Lane::compute, {}, end.value, {}});
    return graph.add(std::move(p).finish());
  };
  const RankId sender = graph.add_rank(program(EndpointKind::send, 2));
  const RankId receiver = graph.add_rank(program(EndpointKind::receive, 1));

  SUBCASE("open") { CHECK_THROWS_WITH_AS(std::move(graph).finish(), doctest::Contains("left open"), InternalError); }
  SUBCASE("wrong kind") {
    CHECK_THROWS_AS(graph.connect(receiver, EndpointId(0), sender, EndpointId(0)), InternalError);
  }
  SUBCASE("unequal") {
    graph.connect(sender, EndpointId(0), receiver, EndpointId(0));
    CHECK_THROWS_WITH_AS(std::move(graph).finish(), doctest::Contains("2 sends and 1 receives"), InternalError);
  }
  SUBCASE("twice") {
    graph.connect(sender, EndpointId(0), receiver, EndpointId(0));
    CHECK_THROWS_WITH_AS(graph.connect(sender, EndpointId(0), receiver, EndpointId(0)),
                         doctest::Contains("attached twice"), InternalError);
  }
  SUBCASE("unequal group") {
    graph.connect(sender, EndpointId(0), receiver, EndpointId(0));
    const RankId a = graph.add_rank(program(EndpointKind::group, 2)),
                 b = graph.add_rank(program(EndpointKind::group, 3));
    graph.add_group(Axis::tensor, {{a, EndpointId(0)}, {b, EndpointId(0)}});
    CHECK_THROWS_AS(std::move(graph).finish(), InternalError);
  }
}

TEST_CASE("a dependency on a later task is refused") {
  ProgramBuilder program("p");
  CHECK_THROWS_AS(program.add({WorkId(0), Lane::compute, {}, kNoEndpoint, {}}, std::vector{LocalTask(0)}),
                  InternalError);
}

TEST_CASE("descriptions name shapes") {
  CHECK(describe(Gemm{.m = 2048, .n = 12288, .k = 1536}) == "gemm 2048x12288x1536 bf16");
  CHECK(describe(Receive{}) == "receive");
  CHECK(describe(Sequence{{{WorkId(0), 2, false}, {WorkId(1), 3, false}}}) == "sequence of 5 works");
}

}  // namespace rehearsal::graph
