#include <doctest/doctest.h>

#include "small.hpp"
#include "timeline/breakdown.hpp"

namespace rehearsal::timeline {
namespace {

std::vector<std::uint64_t> tasks(const std::vector<CriticalStep>& path) {
  std::vector<std::uint64_t> ids;
  for (const CriticalStep& step : path) ids.push_back(step.task.value);
  return ids;
}

}  // namespace

TEST_CASE("the path leads through lane, message and the member that was ready last") {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::FixedDelay{});
  graph::ProgramBuilder first("first"), second("second");
  const auto out = first.endpoint(graph::EndpointKind::send), in = second.endpoint(graph::EndpointKind::receive);
  const auto g0 = first.endpoint(graph::EndpointKind::group), g1 = second.endpoint(graph::EndpointKind::group);
  // Rank 0: 0 compute [0,10], 1 send [10,14], 2 compute [10,12], 3 collective [24,30], 4 compute [30,31].
  const LocalTask made = first.add(task(work, Lane::compute));
  first.add(task(work, Lane::send, Pass::forward, out.value), std::vector{made});
  first.add(task(work, Lane::compute));
  first.add(task(work, Lane::compute, Pass::forward, g0.value));
  first.add(task(work, Lane::compute));
  // Rank 1: 5 receive 14, 6 compute [14,24], 7 collective [24,30].
  const LocalTask come = second.add(task(work, Lane::receive, Pass::forward, in.value));
  second.add(task(work, Lane::compute), std::vector{come});
  second.add(task(work, Lane::compute, Pass::forward, g1.value));
  const RankId a = builder.add_rank(builder.add(std::move(first).finish()));
  const RankId b = builder.add_rank(builder.add(std::move(second).finish()));
  builder.connect(a, out, b, in);
  builder.add_group(Axis::data, {{a, g0}, {b, g1}});
  const auto graph = std::move(builder).finish();

  const auto path =
      critical_path(graph, spans({{0, 10}, {10, 14}, {10, 12}, {24, 30}, {30, 31}, {14, 14}, {14, 24}, {24, 30}}));
  // The collective of rank 0 started at 24 because rank 1 was busy until then.
  CHECK(tasks(path) == std::vector<std::uint64_t>{0, 1, 5, 6, 3, 4});
  for (std::size_t i = 1; i < path.size(); ++i) CHECK(path[i].start == path[i - 1].end);
  CHECK(path.front().start == Time{});
}

TEST_CASE("a message held up by the one before it on its lane leads to what held that up") {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::FixedDelay{});
  graph::ProgramBuilder program("p");
  // 0 compute [0,10]; 1 message after it [10,11]; 2 message after nothing, but in line behind 1: [10,30].
  const LocalTask made = program.add(task(work, Lane::compute));
  program.add(task(work, Lane::send), std::vector{made});
  program.add(task(work, Lane::send));
  builder.add_rank(builder.add(std::move(program).finish()));
  const auto graph = std::move(builder).finish();
  CHECK(tasks(critical_path(graph, spans({{0, 10}, {10, 11}, {10, 30}}))) == std::vector<std::uint64_t>{0, 2});
}

TEST_CASE("a message that waited for its wire leads to the one before it") {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::FixedDelay{});
  graph::ProgramBuilder program("p");
  // 0 compute [0,10], its message 1 [10,25]; 2 compute [10,12], its message 3 [20,35]: message 1 held the wire
  // until 20.
  const LocalTask first = program.add(task(work, Lane::compute));
  program.add(task(work, Lane::send_out), std::vector{first});
  const LocalTask second = program.add(task(work, Lane::compute));
  program.add(task(work, Lane::send_out), std::vector{second});
  builder.add_rank(builder.add(std::move(program).finish()));
  const auto graph = std::move(builder).finish();
  const auto path = critical_path(graph, spans({{0, 10}, {10, 25}, {10, 12}, {20, 35}}));
  CHECK(tasks(path) == std::vector<std::uint64_t>{0, 1, 3});
  for (std::size_t i = 1; i < path.size(); ++i) CHECK(path[i].start == path[i - 1].end);
  // Another wire was free: 3 started when 2 had ended.
  CHECK(tasks(critical_path(graph, spans({{0, 10}, {10, 25}, {10, 12}, {12, 35}}))) ==
        std::vector<std::uint64_t>{0, 2, 3});
}

TEST_CASE("ties go to the smallest task") {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::FixedDelay{});
  graph::ProgramBuilder program("p");
  const LocalTask x = program.add(task(work, Lane::compute)), y = program.add(task(work, Lane::tensor_comm));
  program.add(task(work, Lane::data_comm), std::vector{y, x});
  builder.add_rank(builder.add(std::move(program).finish()));
  const auto graph = std::move(builder).finish();
  CHECK(tasks(critical_path(graph, spans({{0, 10}, {0, 10}, {10, 20}}))) == std::vector<std::uint64_t>{0, 2});
  CHECK(critical_path(graph::GraphBuilder().finish(), Timeline{}).empty());
}

}  // namespace rehearsal::timeline
