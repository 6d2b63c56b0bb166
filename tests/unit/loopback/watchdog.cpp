// What a run by threads does when things go wrong; a legal graph goes through contract/every_backend.cpp.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "loopback/iteration.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal::loopback {
namespace {

using graph::EndpointKind;
using graph::Lane;

// Two ranks; each waits for the other's message before it sends its own.
graph::TaskGraph deadlock() {
  graph::GraphBuilder graph;
  const WorkId message = graph.intern(graph::Message{.size = Bytes(8), .gathered = {}});
  const WorkId receive = graph.intern(graph::Receive{});
  std::vector<RankId> ranks;
  for (std::uint16_t s = 0; s < 2; ++s) {
    graph::ProgramBuilder p("p");
    const auto in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send);
    const graph::Coordinates at{graph::Pass::forward, s, graph::kNoLayer, 0};
    p.add({receive, Lane::compute, at, in.value, {}});
    p.add({message, Lane::compute, at, out.value, {}});
    ranks.push_back(graph.add_rank(graph.add(std::move(p).finish())));
  }
  graph.connect(ranks[0], graph::EndpointId(1), ranks[1], graph::EndpointId(0));
  graph.connect(ranks[1], graph::EndpointId(1), ranks[0], graph::EndpointId(0));
  return std::move(graph).finish();
}

graph::TaskGraph one_task_each(std::size_t ranks) {
  graph::GraphBuilder graph;
  graph::ProgramBuilder p("p");
  p.add({graph.intern(graph::Wait{}), Lane::compute, {}, graph::kNoEndpoint, {}});
  const ProgramId program = graph.add(std::move(p).finish());
  for (std::size_t r = 0; r < ranks; ++r) graph.add_rank(program);
  return std::move(graph).finish();
}

}  // namespace

TEST_CASE("the watchdog ends a hang and lists the heads") {
  const graph::TaskGraph graph = deadlock();
  const auto lists = dispatch::issue_lists(graph);
  const std::vector<Time> durations(2, seconds(1e-3));
  Iteration iteration(graph, lists, durations);
  try {
    iteration.run(seconds(0.05));
    FAIL("must not finish");
  } catch (const MachineError& error) {
    const std::string text = error.what();
    CHECK(text.find("rank 0, lane compute, at F0 s0 receive (0 of 2 done)") != std::string::npos);
    CHECK(text.find("rank 1, lane compute, at F0 s1 receive (0 of 2 done)") != std::string::npos);
  }
}

TEST_CASE("a task longer than the timeout is no hang") {
  const graph::TaskGraph graph = one_task_each(1);
  const auto lists = dispatch::issue_lists(graph);
  const std::vector<Time> durations{seconds(0.1)};
  Iteration iteration(graph, lists, durations);
  CHECK_NOTHROW(iteration.run(seconds(0.01)));
  CHECK(iteration.end[0] - iteration.start[0] >= seconds(0.1));
}

TEST_CASE("the backend refuses what it cannot perform") {
  const cluster::Cluster cluster{cluster::ClusterSpec{}};
  CHECK_THROWS_WITH_AS(make_loopback()->prepare(deadlock(), cluster), doctest::Contains("a cycle"), InternalError);
  CHECK_THROWS_WITH_AS(make_loopback()->prepare(one_task_each(513), cluster), doctest::Contains("513 threads"),
                       MachineError);
}

}  // namespace rehearsal::loopback
