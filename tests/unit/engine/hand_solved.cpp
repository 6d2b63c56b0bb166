// Small graphs with times worked out in the comments; both evaluators must reproduce them.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "engine/sim.hpp"
#include "recipe.hpp"

namespace rehearsal::engine {
namespace {

using graph::EndpointKind;
using graph::Lane;

backend::Timeline run(const Built& built, const std::string& engine) {
  backend::RunOptions options;
  options.durations = built.durations;
  options.held = built.held;
  options.engine = engine;
  return make_sim()->prepare(built.graph)->run(options);
}

using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
Spans spans(const Built& built, const backend::Timeline& timeline) {
  Spans all;
  for (TaskId task : built.task)
    all.push_back({timeline.start[task.index()].count(), timeline.end[task.index()].count()});
  return all;
}

void check(const Recipe& recipe, const Spans& expected) {
  const Built built = build(recipe);
  for (const char* engine : {"replay", "events", "auto"}) {
    CAPTURE(engine);
    const backend::Timeline timeline = run(built, engine);
    CHECK(spans(built, timeline) == expected);
    std::int64_t last = 0;
    for (const auto& span : expected) last = std::max(last, span.second);
    CHECK(timeline.makespan() == Time(last));
    CHECK(timeline.engine == (std::string(engine) == "events" ? "events" : "replay"));
  }
}

Op op(std::size_t rank, Lane lane, std::int64_t duration, std::vector<std::size_t> after = {}) {
  return {rank, lane, duration, std::move(after), EndpointKind::send, SIZE_MAX};
}
Op joined(EndpointKind kind, std::size_t joint, Op op) {
  op.kind = kind;
  op.joint = joint;
  return op;
}

}  // namespace

TEST_CASE("ping: messages of one channel overlap, receives are instants") {
  // Rank 0 computes [0,10] and [10,20] and sends each result for 15: in flight over [10,25] and [20,35] at once.
  // Rank 1 computes [25,55] on the first; the second has arrived at 35 but the lane is free at 55: [55,85].
  check({2,
         {op(0, Lane::compute, 10), joined(EndpointKind::send, 0, op(0, Lane::send, 15, {0})), op(0, Lane::compute, 10),
          joined(EndpointKind::send, 0, op(0, Lane::send, 15, {2})),
          joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)), op(1, Lane::compute, 30, {4}),
          joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)), op(1, Lane::compute, 30, {6})},
         1},
        {{0, 10}, {10, 25}, {10, 20}, {20, 35}, {25, 25}, {25, 55}, {35, 35}, {55, 85}});
}

TEST_CASE("two messages on one wire: the second leaves when the first has left") {
  // Each takes 15, of which 5 are latency and 10 hold the wire. Ready at 3 and 6, they leave at 3 and 13 and arrive at
  // 18 and 28; a third that is ready at 30 finds the wire free.
  check({2,
         {op(0, Lane::compute, 3), joined(EndpointKind::send, 0, op(0, Lane::send, 15, {0})), op(0, Lane::compute, 3),
          joined(EndpointKind::send, 0, op(0, Lane::send, 15, {2})), op(0, Lane::compute, 24),
          joined(EndpointKind::send, 0, op(0, Lane::send, 15, {4})),
          joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)),
          joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)),
          joined(EndpointKind::receive, 0, op(1, Lane::receive, 0))},
         1,
         5},
        {{0, 3}, {3, 18}, {3, 6}, {13, 28}, {6, 30}, {30, 45}, {18, 18}, {28, 28}, {45, 45}});
}

TEST_CASE("port and NIC are two wires; peers share one; a blocking send has the rank to itself") {
  // Rank 0 has all results at 2. To rank 1 over the port: 8, of which 6 on the wire. To ranks 1 and 2 over the NIC: 12,
  // of which 10: both leave at 2, the second over the NIC at 12. The receiving side holds nothing: rank 1 sends over
  // its port at 0.
  check(
      {3,
       {op(0, Lane::compute, 2), joined(EndpointKind::send, 0, op(0, Lane::send, 8, {0})),
        joined(EndpointKind::send, 1, op(0, Lane::send_out, 12, {0})),
        joined(EndpointKind::send, 2, op(0, Lane::send_out, 12, {0})),
        joined(EndpointKind::send, 3, op(1, Lane::send, 8)), joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)),
        joined(EndpointKind::receive, 1, op(1, Lane::receive, 0)),
        joined(EndpointKind::receive, 2, op(2, Lane::receive, 0)),
        joined(EndpointKind::receive, 3, op(0, Lane::receive, 0))},
       4,
       2},
      {{0, 2}, {2, 10}, {2, 14}, {12, 24}, {0, 8}, {10, 10}, {14, 14}, {24, 24}, {8, 8}});
  // On the compute lane a message is over before the next begins.
  check(
      {2,
       {joined(EndpointKind::send, 0, op(0, Lane::compute, 8)), joined(EndpointKind::send, 0, op(0, Lane::compute, 8)),
        joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)),
        joined(EndpointKind::receive, 0, op(1, Lane::receive, 0))},
       1,
       2},
      {{0, 8}, {8, 16}, {8, 8}, {16, 16}});
}

TEST_CASE("a blocking send occupies the compute lane, a blocking receive waits on it") {
  // Rank 0: compute [0,10], send [10,25] on the compute lane, so the next compute is [25,35].
  // Rank 1 works [0,40] first: the message is there at 25 but is received at 40; then compute [40,45].
  check({2,
         {op(0, Lane::compute, 10), joined(EndpointKind::send, 0, op(0, Lane::compute, 15)), op(0, Lane::compute, 10),
          op(1, Lane::compute, 40), joined(EndpointKind::receive, 0, op(1, Lane::compute, 0)), op(1, Lane::compute, 5)},
         1},
        {{0, 10}, {10, 25}, {25, 35}, {0, 40}, {40, 40}, {40, 45}});
}

TEST_CASE("members of a collective start together when the last is ready") {
  // Ready at 10, 30 and 20: all run [30,37]. Rank 0 goes on computing on its other lane meanwhile: [10,14].
  check(
      {3,
       {op(0, Lane::compute, 10), joined(EndpointKind::group, 0, op(0, Lane::data_comm, 7, {0})),
        op(0, Lane::compute, 4), op(1, Lane::compute, 30),
        joined(EndpointKind::group, 0, op(1, Lane::data_comm, 7, {3})), op(2, Lane::compute, 20),
        joined(EndpointKind::group, 0, op(2, Lane::compute, 7)), op(2, Lane::compute, 1), op(0, Lane::compute, 1, {1})},
       1},
      {{0, 10}, {30, 37}, {10, 14}, {0, 30}, {30, 37}, {0, 20}, {30, 37}, {37, 38}, {37, 38}});
}

TEST_CASE("lanes of messages start in id order") {
  // The second send is ready at 0 but its lane starts the first at 10, so it starts at 10 too.
  check(
      {3,
       {op(0, Lane::compute, 10), joined(EndpointKind::send, 0, op(0, Lane::send, 5, {0})),
        joined(EndpointKind::send, 1, op(0, Lane::send, 20)), joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)),
        joined(EndpointKind::receive, 1, op(2, Lane::receive, 0))},
       2},
      {{0, 10}, {10, 15}, {10, 30}, {15, 15}, {30, 30}});
}

TEST_CASE("uses of one group on two lanes are told apart") {
  // Each rank runs use 0 on its compute lane after 10 and use 1, 100 long, on the tensor lane from the start.
  check({2,
         {op(0, Lane::compute, 10), joined(EndpointKind::group, 0, op(0, Lane::compute, 3)),
          joined(EndpointKind::group, 0, op(0, Lane::tensor_comm, 100)), op(1, Lane::compute, 20),
          joined(EndpointKind::group, 0, op(1, Lane::compute, 3)),
          joined(EndpointKind::group, 0, op(1, Lane::tensor_comm, 100))},
         1},
        {{0, 10}, {20, 23}, {0, 100}, {0, 20}, {20, 23}, {0, 100}});
}

TEST_CASE("a receive posted too early stops replay but not events") {
  // Rank 0 lists its receive before the send that rank 1 answers. Send [0,5], rank 1 computes [5,10], answers [10,15].
  const Built built = build(
      {2,
       {joined(EndpointKind::receive, 1, op(0, Lane::receive, 0)), joined(EndpointKind::send, 0, op(0, Lane::send, 5)),
        joined(EndpointKind::receive, 0, op(1, Lane::receive, 0)), op(1, Lane::compute, 5, {2}),
        joined(EndpointKind::send, 1, op(1, Lane::send, 5, {3}))},
       2});
  const Spans expected{{15, 15}, {0, 5}, {5, 5}, {5, 10}, {10, 15}};
  CHECK(spans(built, run(built, "events")) == expected);
  const backend::Timeline timeline = run(built, "auto");
  CHECK(spans(built, timeline) == expected);
  CHECK(timeline.engine == "events");
  CHECK_THROWS_WITH_AS(run(built, "replay"), doctest::Contains("rank 0 at"), UserError);
}

TEST_CASE("a cycle is reported, not waited for") {
  const Built built = build({2,
                             {joined(EndpointKind::receive, 1, op(0, Lane::compute, 0)),
                              joined(EndpointKind::send, 0, op(0, Lane::compute, 5)),
                              joined(EndpointKind::receive, 0, op(1, Lane::compute, 0)),
                              joined(EndpointKind::send, 1, op(1, Lane::compute, 5))},
                             2});
  for (const char* engine : {"auto", "replay", "events"})
    CHECK_THROWS_WITH_AS(run(built, engine), doctest::Contains("has a cycle"), InternalError);
}

TEST_CASE("wrong options are refused") {
  Built built = build({1, {op(0, Lane::compute, 10)}, 0});
  CHECK_THROWS_WITH_AS(run(built, "event"), doctest::Contains("did you mean 'events'"), UserError);
  built.durations.push_back(Time(1));
  CHECK_THROWS_AS(run(built, "auto"), InternalError);
}

TEST_CASE("every iteration takes as long as the first; an empty graph takes none") {
  const Built built = build({1, {op(0, Lane::compute, 10)}, 0});
  backend::RunOptions options;
  options.durations = built.durations;
  options.iterations = 3;
  CHECK(make_sim()->prepare(built.graph)->run(options).iteration_end == std::vector<Time>(3, Time(10)));
  CHECK(run(build({0, {}, 0}), "auto").makespan() == Time{});
}

}  // namespace rehearsal::engine
