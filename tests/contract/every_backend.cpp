// One graph on every backend: what must hold of any timeline, predicted or performed.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/sim.hpp"
#include "graph/builder.hpp"
#include "graph/validate.hpp"
#include "loopback/loopback.hpp"

namespace rehearsal {
namespace {

using backend::Timeline;
using graph::EndpointKind;
using graph::Lane;
using graph::Pass;

constexpr std::uint32_t kMicrobatches = 4;
constexpr int kIterations = 5;

struct Subject {
  graph::TaskGraph graph;
  std::vector<Time> durations, held;
};

// `sends`: the lane of the messages; on the compute lane they keep their rank busy.
//
// Two stages with two replicas each: forwards and backwards as in GPipe, messages up and down on their own lanes, the
// gradient reduction of each stage overlapped with the remaining backwards, then an optimizer step. Milliseconds, so
// that thread wake-up times (tens of microseconds) do not decide the order.
Subject two_by_two(Lane sends) {
  graph::GraphBuilder builder;
  std::vector<Time> durations;
  auto intern = [&](const graph::Work& work, double ms) {
    const WorkId id = builder.intern(work);
    durations.push_back(seconds(ms * 1e-3));
    return id;
  };
  const WorkId forward = intern(Gemm{.m = 1, .n = 1, .k = 1}, 2), backward = intern(Gemm{.m = 2, .n = 1, .k = 1}, 4);
  const WorkId message = intern(graph::Message{.size = Bytes(1), .gathered = {}}, 1.5);
  const WorkId receive = intern(graph::Receive{}, 0);
  const WorkId reduce = intern(graph::Collective{.size = Bytes(1), .group = {}}, 5);
  const WorkId step = intern(graph::OptimizerStep{.parameters = 1, .traffic = {}}, 1);

  std::vector<ProgramId> programs;
  for (std::uint16_t stage = 0; stage < 2; ++stage) {
    graph::ProgramBuilder p("stage");
    const auto out = p.endpoint(EndpointKind::send), in = p.endpoint(EndpointKind::receive),
               data = p.endpoint(EndpointKind::group);
    auto add = [&](WorkId work, Lane lane, Pass pass, std::uint32_t microbatch, std::uint32_t endpoint,
                   std::vector<LocalTask> after) {
      return p.add({work, lane, {pass, stage, graph::kNoLayer, microbatch}, endpoint, {}}, after);
    };
    constexpr auto kOpen = graph::kNoEndpoint;
    std::vector<LocalTask> last;
    for (Pass pass : {Pass::forward, Pass::backward}) {
      const bool receives = (pass == Pass::forward) == (stage == 1);
      for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
        std::vector<LocalTask> after;
        if (receives) after = {add(receive, Lane::receive, pass, m, in.value, {})};
        last = {add(pass == Pass::forward ? forward : backward, Lane::compute, pass, m, kOpen, after)};
        if (!receives) add(message, sends, pass, m, out.value, last);
        if (pass == Pass::backward && m == kMicrobatches / 2)
          add(reduce, Lane::data_comm, Pass::gradient_reduce, graph::kNoMicrobatch, data.value, last);
      }
    }
    const LocalTask reduced =
        add(reduce, Lane::data_comm, Pass::gradient_reduce, graph::kNoMicrobatch, data.value, last);
    add(step, Lane::compute, Pass::optimizer, graph::kNoMicrobatch, kOpen, {reduced});
    programs.push_back(builder.add(std::move(p).finish()));
  }
  std::vector<RankId> ranks;
  for (std::uint32_t r = 0; r < 4; ++r) ranks.push_back(builder.add_rank(programs[r / 2], 1, r));
  const graph::EndpointId out(0), in(1), data(2);
  for (std::size_t replica = 0; replica < 2; ++replica) {
    builder.connect(ranks[replica], out, ranks[2 + replica], in);
    builder.connect(ranks[2 + replica], out, ranks[replica], in);
  }
  builder.add_group(Axis::data, {{ranks[0], data}, {ranks[1], data}});
  builder.add_group(Axis::data, {{ranks[2], data}, {ranks[3], data}});
  std::vector<Time> held(durations.size());
  return {std::move(builder).finish(), durations, held};
}

struct Run {
  std::string name;
  Timeline timeline;
};

std::vector<Run> runs(const Subject& subject) {
  std::vector<Run> all;
  auto run = [&](backend::Backend& backend, const std::string& engine, int warmup) {
    backend::RunOptions options;
    options.durations = subject.durations;
    options.held = subject.held;
    options.engine = engine;
    options.warmup = warmup;
    options.iterations = kIterations;
    options.timeout = seconds(10);
    all.push_back({backend.name() + " " + engine, backend.prepare(subject.graph)->run(options)});
  };
  const auto sim = engine::make_sim(), loopback = loopback::make_loopback();
  run(*sim, "replay", 0);
  run(*sim, "events", 0);
  run(*loopback, "auto", 1);
  return all;
}

void check_legal(const Subject& subject, const std::vector<Time>& starts, const std::vector<Time>& ends,
                 Time makespan) {
  const graph::TaskGraph& graph = subject.graph;
  REQUIRE(starts.size() == graph.tasks());
  REQUIRE(ends.size() == graph.tasks());
  auto start = [&](TaskId task) { return starts[task.index()]; };
  auto end = [&](TaskId task) { return ends[task.index()]; };
  Time last;
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Program& program = graph.program_of(graph.ranks()[r]);
    std::vector<std::vector<TaskId>> lanes(graph::kLanes);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const TaskId task = graph.task(RankId(r), LocalTask(i));
      CAPTURE(graph.label(RankId(r), LocalTask(i)));
      last = std::max(last, end(task));
      CHECK(start(task) >= Time{});
      for (LocalTask before : program.dependencies[i]) CHECK(end(graph.task(RankId(r), before)) <= start(task));
      auto& lane = lanes[static_cast<std::size_t>(program.lane[i])];
      if (!lane.empty()) {
        const auto before = program.work[lane.back().index() - graph.ranks()[r].first_task].index();
        const Time left = start(lane.back()) + (is_send(program.lane[i]) ? subject.held[before] : Time{});
        CHECK((is_serial(program.lane[i]) ? end(lane.back()) : left) <= start(task));
      }
      lane.push_back(task);
      const std::uint32_t endpoint = program.endpoint[i];
      const bool receives = endpoint != graph::kNoEndpoint && program.endpoints[endpoint] == EndpointKind::receive;
      if (receives)
        CHECK(end(graph.partner(RankId(r), LocalTask(i))) <= end(task));
      else
        CHECK(end(task) - start(task) >= subject.durations[program.work[i].index()]);
    }
  }
  for (const graph::Group& group : graph.groups())
    for (std::size_t k = 0; k < 2; ++k)
      for (const graph::GroupMember& member : group.members) {
        auto task = [&](const graph::GroupMember& m) {
          const auto& tasks = graph.program_of(graph.ranks()[m.rank.index()]).endpoint_tasks;
          return graph.task(m.rank, tasks[m.endpoint.index()][k]);
        };
        CHECK(start(task(member)) == start(task(group.members.front())));
      }
  CHECK(makespan == last);
}

}  // namespace

TEST_CASE("every backend keeps to the graph, and to the same graph") {
  for (const Lane sends : {Lane::send, Lane::compute}) {
    CAPTURE(graph::name(sends));
    const Subject subject = two_by_two(sends);
    REQUIRE_NOTHROW(graph::validate(subject.graph));
    const std::string digest = subject.graph.digest();
    const std::vector<Run> all = runs(subject);
    for (const Run& run : all) {
      CAPTURE(run.name);
      check_legal(subject, run.timeline.start, run.timeline.end, run.timeline.makespan());
      CHECK(subject.graph.digest() == digest);
      // Nothing real is faster than the rehearsal, with 1 % tolerance for clocks.
      CHECK(double(run.timeline.makespan().count()) >= 0.99 * double(all.front().timeline.makespan().count()));
    }
    // Every performed iteration is legal, not only the one shown.
    const Timeline& performed = all.back().timeline;
    REQUIRE(performed.iterations.size() == kIterations);
    REQUIRE(performed.iteration_end.size() == kIterations);
    for (std::size_t i = 0; i < kIterations; ++i) {
      CAPTURE(i);
      check_legal(subject, performed.iterations[i].start, performed.iterations[i].end, performed.iteration_end[i]);
    }
    CHECK(performed.start == performed.iterations.at(performed.median_iteration).start);
    CHECK(performed.end == performed.iterations.at(performed.median_iteration).end);
  }
}

TEST_CASE("a timed run follows the rehearsal, but for waking up") {
  // By the rules of lanes, dependencies, channels and groups no task can start or end earlier than in the rehearsal,
  // where everything happens as soon as possible. How much later depends on the machine: the best of five iterations
  // may take a quarter longer, in one of three attempts.
  const Subject subject = two_by_two(Lane::send);
  double best = 10;
  for (int attempt = 0; attempt < 3 && best > 1.25; ++attempt) {
    const std::vector<Run> all = runs(subject);
    const Timeline& rehearsed = all.front().timeline;
    const Timeline& performed = all.back().timeline;
    for (const auto& spans : performed.iterations)
      for (std::size_t i = 0; i < spans.end.size(); ++i) {
        CHECK(spans.start[i] >= rehearsed.start[i]);
        CHECK(spans.end[i] >= rehearsed.end[i]);
      }
    for (const Time end : performed.iteration_end) best = std::min(best, end / rehearsed.makespan());
  }
  MESSAGE("best iteration: " << best << " of the rehearsal");
  CHECK(best <= 1.25);
}

TEST_CASE("messages queue for their wire in every backend") {
  // Each takes 10 ms and holds the wire for 8, four times what a forward takes. Stage 0: forwards end at 2, 4, 6, 8, so
  // messages leave at 2, 10, 18, 26 and arrive at 12, 20, 28, 36; stage 1 forwards until 38.
  Subject subject = two_by_two(Lane::send_out);
  for (std::size_t w = 0; w < subject.durations.size(); ++w)
    if (std::holds_alternative<graph::Message>(subject.graph.works()[w]))
      subject.durations[w] = seconds(10e-3), subject.held[w] = seconds(8e-3);
  const std::vector<Run> all = runs(subject);
  for (const Run& run : all) {
    CAPTURE(run.name);
    check_legal(subject, run.timeline.start, run.timeline.end, run.timeline.makespan());
  }
  CHECK(all[0].timeline.end == all[1].timeline.end);
  // Stage 1 runs backwards until 42, 46, 50, 54; gradients leave at 42, 50, 58, 66; the last arrives at 76; stage 0
  // ends its backwards at 80, its reduction at 85 and its step at 86.
  CHECK(all[0].timeline.makespan() == seconds(86e-3));
  CHECK(all[2].timeline.makespan() >= seconds(86e-3));
}

TEST_CASE("both evaluators of the simulator give the same timeline, worked out by hand") {
  const Subject subject = two_by_two(Lane::send);
  const std::vector<Run> all = runs(subject);
  CHECK(all[0].timeline.start == all[1].timeline.start);
  CHECK(all[0].timeline.end == all[1].timeline.end);
  CHECK(all[0].timeline.engine == "replay");
  CHECK(all[1].timeline.engine == "events");
  CHECK(all[2].timeline.fidelity == backend::Fidelity::timed);
  // Milliseconds. Stage 1: first message at 2 + 1.5, four forwards until 11.5, backwards end at 15.5, 19.5, 23.5, 27.5;
  // reductions [23.5, 28.5] and [28.5, 33.5], step until 34.5. Stage 0: backward messages come 1.5 after each of these
  // ends; backwards [17, 21], [21, 25], [25, 29], [29, 33]; reductions [29, 34] and [34, 39]; step until 40.
  CHECK(all[0].timeline.makespan() == seconds(40e-3));
}

}  // namespace rehearsal
