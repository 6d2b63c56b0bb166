#include "timeline/breakdown.hpp"

#include <doctest/doctest.h>

#include "graph/flops.hpp"
#include "small.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Category;

std::int64_t of(const Breakdown& parts, Category category) { return parts[static_cast<std::size_t>(category)].count(); }
std::int64_t sum(const Breakdown& parts) {
  std::int64_t total = 0;
  for (Time part : parts) total += part.count();
  return total;
}

// Rank 0 sends to rank 1, which does a bit of everything.
struct Example {
  graph::TaskGraph graph;
  std::vector<Time> durations;
  Timeline timeline;
};

Example example() {
  graph::GraphBuilder builder;
  const WorkId gemm = builder.intern(Gemm{.m = 1, .n = 1, .k = 1});
  const WorkId message = builder.intern(graph::Message{.size = Bytes(1), .gathered = {}});
  const WorkId receive = builder.intern(graph::Receive{});
  const WorkId gather = builder.intern(graph::Collective{.size = Bytes(1), .group = {}});
  const WorkId reduce = builder.intern(graph::Collective{.size = Bytes(2), .group = {}});
  const WorkId step = builder.intern(graph::OptimizerStep{.parameters = 1, .traffic = {}});
  const WorkId host = builder.intern(graph::HostBound{Time(9), gemm});
  const WorkId wait = builder.intern(graph::FixedDelay{Time(4)});

  graph::ProgramBuilder first("first");
  const auto out = first.endpoint(graph::EndpointKind::send);
  const LocalTask made = first.add(task(gemm, Lane::compute));
  first.add(task(message, Lane::send, Pass::forward, out.value), std::vector{made});

  graph::ProgramBuilder second("second");
  const auto in = second.endpoint(graph::EndpointKind::receive);
  const LocalTask come = second.add(task(receive, Lane::receive, Pass::forward, in.value));
  second.add(task(gemm, Lane::compute), std::vector{come});  // after the message
  second.add(task(gemm, Lane::compute, Pass::recompute));
  const LocalTask gathered = second.add(task(gather, Lane::tensor_comm));
  second.add(task(gemm, Lane::compute), std::vector{gathered});  // after an exposed gather
  const LocalTask reduced = second.add(task(reduce, Lane::data_comm, Pass::gradient_reduce));
  second.add(task(host, Lane::compute));  // hides half of the reduction
  second.add(task(step, Lane::compute, Pass::optimizer), std::vector{reduced});
  second.add(task(wait, Lane::compute, Pass::optimizer));
  second.add(task(gather, Lane::compute, Pass::parameter_gather));

  const RankId a = builder.add_rank(builder.add(std::move(first).finish()));
  const RankId b = builder.add_rank(builder.add(std::move(second).finish()));
  builder.connect(a, out, b, in);
  std::vector<Time> durations{Time(10), Time(5), Time(0), Time(6), Time(20), Time(3), Time(9), Time(4)};
  // Rank 0: gemm [0,10], message [10,15].
  // Rank 1: receive at 15; gemm [15,25]; recompute [25,35]; gather [25,41] (began late by its other members) so the
  // gemm that needs it runs [41,51]; reduction [45,65] behind host time [51,60]; optimizer [65,68], wait [68,72],
  // gather of parameters [72,78].
  Timeline timeline = spans({{0, 10},
                             {10, 15},
                             {15, 15},
                             {15, 25},
                             {25, 35},
                             {35, 41},
                             {41, 51},
                             {45, 65},
                             {51, 60},
                             {65, 68},
                             {68, 72},
                             {72, 78}});
  return {std::move(builder).finish(), durations, timeline};
}

}  // namespace

TEST_CASE("the exposed time of a rank sums to the iteration") {
  const Example e = example();
  const Breakdown parts = breakdown(e.graph, e.timeline, RankId(1), e.durations);
  CHECK(of(parts, Category::bubble) == 10);        // nothing to do before the message leaves at 10
  CHECK(of(parts, Category::pipeline_comm) == 5);  // [10,15]
  CHECK(of(parts, Category::compute) == 20);       // [15,25] [41,51]
  CHECK(of(parts, Category::recompute) == 10);     // [25,35]
  CHECK(of(parts, Category::tensor_comm) == 6);    // [35,41]
  CHECK(of(parts, Category::host) == 9);           // [51,60]
  CHECK(of(parts, Category::data_comm) == 5 + 6);  // [60,65] of the reduction, [72,78] on the compute lane
  CHECK(of(parts, Category::optimizer) == 3 + 4);  // [65,72]: the step, and a wait of its pass
  CHECK(sum(parts) == 78);

  const Breakdown idle = breakdown(e.graph, e.timeline, RankId(0), e.durations);
  CHECK(of(idle, Category::compute) == 10);
  CHECK(of(idle, Category::bubble) == 68);  // its own message does not keep it waiting
}

TEST_CASE("a gap before a task of no length counts once") {
  graph::GraphBuilder builder;
  const WorkId gemm = builder.intern(Gemm{.m = 1, .n = 1, .k = 1});
  const WorkId message = builder.intern(graph::Message{.size = Bytes(1), .gathered = {}});
  const WorkId receive = builder.intern(graph::Receive{}), nothing = builder.intern(graph::FixedDelay{});
  graph::ProgramBuilder first("first");
  const auto out = first.endpoint(graph::EndpointKind::send);
  const LocalTask made = first.add(task(gemm, Lane::compute));
  first.add(task(message, Lane::send, Pass::forward, out.value), std::vector{made});
  graph::ProgramBuilder second("second");
  const auto in = second.endpoint(graph::EndpointKind::receive);
  const LocalTask come = second.add(task(receive, Lane::receive, Pass::forward, in.value));
  second.add(task(nothing, Lane::compute), std::vector{come});
  second.add(task(nothing, Lane::compute));
  second.add(task(gemm, Lane::compute));
  const RankId a = builder.add_rank(builder.add(std::move(first).finish()));
  const RankId b = builder.add_rank(builder.add(std::move(second).finish()));
  builder.connect(a, out, b, in);
  const auto graph = std::move(builder).finish();
  const std::vector<Time> durations{Time(10), Time(5), Time(0), Time(0)};
  const auto timeline = spans({{0, 10}, {10, 15}, {15, 15}, {15, 15}, {15, 15}, {15, 25}});
  const auto parts = breakdown(graph, timeline, b, durations);
  CHECK(of(parts, Category::bubble) == 10);
  CHECK(of(parts, Category::pipeline_comm) == 5);
  CHECK(of(parts, Category::compute) == 10);
  CHECK(sum(parts) == 25);
}

TEST_CASE("waiting for the wire is waiting for the message") {
  Example e = example();
  // The message was ready at 10 and left at 12, when its wire was free.
  e.timeline.start[1] = Time(12);
  const Breakdown parts = breakdown(e.graph, e.timeline, RankId(1), e.durations);
  CHECK(of(parts, Category::bubble) == 10);
  CHECK(of(parts, Category::pipeline_comm) == 5);
}

TEST_CASE("busy counts the compute lane without messages and data-parallel collectives") {
  const Example e = example();
  // Rank 1: 10 + 10 + 10 + 9 + 3 + 4 and 6 that show of the tensor group's gather, without the gather of parameters.
  CHECK(busy(e.graph, e.timeline, e.durations) == std::vector{Time(10), Time(52)});
  CHECK(last_rank(e.graph, e.timeline) == RankId(1));
}

TEST_CASE("a sequence divides in proportion and to the last picosecond") {
  graph::GraphBuilder builder;
  const WorkId gemm = builder.intern(Gemm{.m = 1, .n = 1, .k = 1});
  const WorkId reduce = builder.intern(graph::Collective{.size = Bytes(1), .group = {}});
  const WorkId inner = builder.intern(graph::Sequence{{{gemm, 2, false}, {gemm, 1, true}}});
  const WorkId outer = builder.intern(graph::Sequence{{{inner, 2, false}, {reduce, 1, false}}});
  graph::ProgramBuilder program("p");
  program.add(task(outer, Lane::compute));
  builder.add_rank(builder.add(std::move(program).finish()));
  const graph::TaskGraph graph = std::move(builder).finish();
  const std::vector<Time> durations{Time(3), Time(2), Time(9), Time(20)};

  // Twice (2 * 3 and recomputed 3) and one 2: 12 + 6 + 2 = 20.
  const Breakdown predicted = split(graph, outer, durations);
  CHECK(of(predicted, Category::compute) == 12);
  CHECK(of(predicted, Category::recompute) == 6);
  CHECK(of(predicted, Category::tensor_comm) == 2);

  // Measured as 33: 33/20 times 12, 6 and 2 is 19.8, 9.9 and 3.3; rounded down 19 + 9 + 3 = 31, and the two that are
  // missing go to the largest.
  Timeline performed = spans({{0, 33}});
  performed.fidelity = Fidelity::timed;
  const Breakdown measured = breakdown(graph, performed, RankId(0), durations);
  CHECK(of(measured, Category::compute) == 21);
  CHECK(of(measured, Category::recompute) == 9);
  CHECK(of(measured, Category::tensor_comm) == 3);

  // Predicted as 33, it was slowed down by what ran beside it.
  const Breakdown slowed = breakdown(graph, spans({{0, 33}}), RankId(0), durations);
  CHECK(of(slowed, Category::compute) == 12);
  CHECK(of(slowed, Category::contention) == 13);

  // Priced at nothing, measured as 5: the kind of its first item.
  const std::vector<Time> nothing(4);
  CHECK(of(breakdown(graph, spans({{0, 5}}), RankId(0), nothing), Category::compute) == 5);
}

TEST_CASE("of a collective under a GEMM only what shows is communication") {
  graph::GraphBuilder builder;
  const WorkId piece = builder.intern(Gemm{.m = 1, .n = 1, .k = 1});
  const WorkId gather = builder.intern(graph::Collective{.size = Bytes(1), .group = {}});
  const WorkId both = builder.intern(graph::Overlapped{piece, gather});
  const WorkId pass = builder.intern(graph::Sequence{{{both, 3, false}, {both, 2, true}, {piece, 1, false}}});
  graph::ProgramBuilder program("p");
  program.add(task(pass, Lane::compute));
  builder.add_rank(builder.add(std::move(program).finish()));
  const graph::TaskGraph graph = std::move(builder).finish();
  // Pieces of 10, and of a gather of 15 beside them 5 show.
  const std::vector<Time> durations{Time(10), Time(15), Time(15), Time(3 * 15 + 2 * 15 + 10)};
  const Breakdown parts = split(graph, pass, durations);
  CHECK(of(parts, Category::compute) == 40);
  CHECK(of(parts, Category::recompute) == 2 * 10);
  CHECK(of(parts, Category::tensor_comm) == 5 * 5);
  CHECK(graph::flops(graph.work(pass), graph.works()).value() == 2. * 6);  // 2 m n k a piece
}

TEST_CASE("a gather between a message and its use still counts as waiting for the message") {
  graph::GraphBuilder builder;
  const WorkId gemm = builder.intern(Gemm{.m = 1, .n = 1, .k = 1});
  const WorkId message = builder.intern(graph::Message{.size = Bytes(1), .gathered = {}});
  const WorkId receive = builder.intern(graph::Receive{});
  const WorkId gather = builder.intern(graph::Collective{.size = Bytes(1), .group = {}});
  graph::ProgramBuilder first("first"), second("second");
  const auto out = first.endpoint(graph::EndpointKind::send), in = second.endpoint(graph::EndpointKind::receive);
  first.add(task(message, Lane::send, Pass::forward, out.value));
  const LocalTask come = second.add(task(receive, Lane::receive, Pass::forward, in.value));
  const LocalTask whole = second.add(task(gather, Lane::tensor_comm), std::vector{come});
  second.add(task(gemm, Lane::compute), std::vector{whole});
  const RankId a = builder.add_rank(builder.add(std::move(first).finish()));
  const RankId b = builder.add_rank(builder.add(std::move(second).finish()));
  builder.connect(a, out, b, in);
  const graph::TaskGraph graph = std::move(builder).finish();
  const std::vector<Time> durations{Time(10), Time(7), Time(0), Time(2)};
  // Message [0,7], gather [7,9], gemm [9,19].
  const Breakdown parts = breakdown(graph, spans({{0, 7}, {7, 7}, {7, 9}, {9, 19}}), b, durations);
  CHECK(of(parts, Category::pipeline_comm) == 7);
  CHECK(of(parts, Category::tensor_comm) == 2);
  CHECK(of(parts, Category::compute) == 10);
}

}  // namespace rehearsal::timeline
