// Failures of a run with threads; legal graphs are in contract/every_backend.cpp.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal::loopback {
namespace {

using backend::RunOptions;
using backend::Timeline;
using graph::EndpointKind;
using graph::Lane;

// Rank 0 waits 1 ms and sends; rank 1 receives, and then both join a group. Works: 0 wait, 1 message, 2 receive,
// 3 collective. Tasks of rank 0: wait, send, join; of rank 1: receive, join.
graph::TaskGraph message_and_group() {
  graph::GraphBuilder graph;
  const WorkId wait = graph.intern(graph::FixedDelay{seconds(1e-3)});
  const WorkId message = graph.intern(graph::Message{.size = Bytes(8), .gathered = {}});
  const WorkId receive = graph.intern(graph::Receive{});
  const WorkId reduce = graph.intern(graph::Collective{.size = Bytes(8), .group = {}});
  std::vector<RankId> ranks;
  for (std::uint16_t s = 0; s < 2; ++s) {
    graph::ProgramBuilder p("p");
    const auto channel = p.endpoint(s == 0 ? EndpointKind::send : EndpointKind::receive);
    const auto group = p.endpoint(EndpointKind::group);
    const graph::Coordinates at{graph::Pass::forward, s, graph::kNoLayer, 0};
    LocalTask last;
    if (s == 0) {
      last = p.add({wait, Lane::compute, at, graph::kNoEndpoint, {}});
      p.add({message, Lane::send, at, channel.value, {}}, std::vector{last});
    } else {
      last = p.add({receive, Lane::receive, at, channel.value, {}});
    }
    p.add({reduce, Lane::data_comm, at, group.value, {}}, std::vector{last});
    ranks.push_back(graph.add_rank(graph.add(std::move(p).finish())));
  }
  graph.connect(ranks[0], graph::EndpointId(0), ranks[1], graph::EndpointId(0));
  graph.add_group(Axis::data, {{ranks[0], graph::EndpointId(1)}, {ranks[1], graph::EndpointId(1)}});
  return std::move(graph).finish();
}

// Two ranks; each sends and receives on its compute lane, in the given order.
graph::TaskGraph exchange(bool receive_first) {
  graph::GraphBuilder graph;
  const WorkId message = graph.intern(graph::Message{.size = Bytes(8), .gathered = {}});
  const WorkId receive = graph.intern(graph::Receive{});
  std::vector<RankId> ranks;
  for (std::uint16_t s = 0; s < 2; ++s) {
    graph::ProgramBuilder p("p");
    const auto in = p.endpoint(EndpointKind::receive), out = p.endpoint(EndpointKind::send);
    const graph::Coordinates at{graph::Pass::forward, s, graph::kNoLayer, 0};
    for (const bool receives : {receive_first, !receive_first})
      p.add({receives ? receive : message, Lane::compute, at, receives ? in.value : out.value, {}});
    ranks.push_back(graph.add_rank(graph.add(std::move(p).finish())));
  }
  graph.connect(ranks[0], graph::EndpointId(1), ranks[1], graph::EndpointId(0));
  graph.connect(ranks[1], graph::EndpointId(1), ranks[0], graph::EndpointId(0));
  return std::move(graph).finish();
}

graph::TaskGraph one_task_each(std::size_t ranks) {
  graph::GraphBuilder graph;
  graph::ProgramBuilder p("p");
  p.add({graph.intern(graph::FixedDelay{}), Lane::compute, {}, graph::kNoEndpoint, {}});
  const ProgramId program = graph.add(std::move(p).finish());
  for (std::size_t r = 0; r < ranks; ++r) graph.add_rank(program);
  return std::move(graph).finish();
}

std::string failure(const graph::TaskGraph& graph, const RunOptions& options) {
  try {
    make_loopback()->prepare(graph)->run(options);
  } catch (const MachineError& error) {
    return error.what();
  }
  return "no failure";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a message that is never sent is reported, with who waits for whom") {
  const graph::TaskGraph graph = message_and_group();
  const std::vector<Time> durations{seconds(1e-3), seconds(1e-3), {}, seconds(1e-3)};
  RunOptions options;
  options.durations = durations;
  options.timeout = seconds(0.05);
  options.fault_injection.skip = [](RankId rank, LocalTask task, int) { return rank.value == 0 && task.value == 1; };
  const std::string text = failure(graph, options);
  CAPTURE(text);
  CHECK(contains(text, "loopback: nothing has moved for 50.000 ms"));
  CHECK(contains(text, "rank 0, lane data_comm, at F0 s0 all-reduce (0 of 1 done)"));
  CHECK(contains(text, "rank 1, lane receive, at F0 s1 receive (0 of 1 done)"));
  CHECK_FALSE(contains(text, "rank 0, lane compute"));  // done
  CHECK(contains(text, "rank 1: F0 s1 receive waits for rank 0: F0 s0 send, which that rank has passed, but nothing"));
  CHECK(contains(text, "rank 0: F0 s0 all-reduce waits for member 1 of group 'data', use 0"));
}

TEST_CASE("a member that never joins is reported") {
  const graph::TaskGraph graph = message_and_group();
  const std::vector<Time> durations{seconds(1e-3), seconds(1e-3), {}, seconds(1e-3)};
  RunOptions options;
  options.durations = durations;
  options.timeout = seconds(0.05);
  options.fault_injection.skip = [](RankId rank, LocalTask task, int step) {
    return step == 1 && rank.value == 1 && task.value == 1;  // the second iteration
  };
  options.iterations = 3;
  const std::string text = failure(graph, options);
  CAPTURE(text);
  CHECK(contains(text, "waits for member 1 of group 'data', use 0; some have passed it without joining"));
}

TEST_CASE("a task, or a message, that takes longer than the timeout is no hang") {
  const graph::TaskGraph graph = message_and_group();
  for (const std::size_t slow : {0u, 1u, 3u}) {
    CAPTURE(slow);
    std::vector<Time> durations{{}, {}, {}, {}};
    durations[slow] = seconds(0.1);
    RunOptions options;
    options.durations = durations;
    options.timeout = seconds(0.02);
    Timeline timeline;
    REQUIRE_NOTHROW(timeline = make_loopback()->prepare(graph)->run(options));
    // Everything is one chain: wait, message, all-reduce.
    CHECK(timeline.makespan() >= seconds(0.1));
  }
}

TEST_CASE("the backend refuses what it cannot perform") {
  const auto backend = make_loopback();
  // Each waits for the other's message before it sends its own.
  CHECK_THROWS_WITH_AS(backend->prepare(exchange(true)), doctest::Contains("a cycle"), InternalError);
  // Each sends first and blocks its lane until the other receives: no cycle, but messages must be buffered.
  CHECK_THROWS_WITH_AS(backend->prepare(exchange(false)), doctest::Contains("needs buffered messages"), MachineError);
  CHECK_THROWS_WITH_AS(backend->prepare(one_task_each(513)), doctest::Contains("513 threads"), MachineError);
}

TEST_CASE("times without a kernel are not computed for real") {
  graph::GraphBuilder builder;
  graph::ProgramBuilder p("p");
  p.add({builder.intern(Gemm{.m = 2, .n = 3, .k = 4}), Lane::compute, {}, graph::kNoEndpoint, {}});
  builder.add_rank(builder.add(std::move(p).finish()));
  const graph::TaskGraph graph = std::move(builder).finish();
  RunOptions options;
  options.compute = backend::Compute::real;
  const auto session = make_loopback([](const auto&, RankId, const RunOptions&) -> std::unique_ptr<dispatch::Worker> {
                         return nullptr;
                       })->prepare(graph);
  CHECK_THROWS_WITH_AS(session->run(options),
                       doctest::Contains("gemm 2x3x4 bf16) cannot be computed for real; use --compute timed"),
                       UserError);
}

}  // namespace rehearsal::loopback
