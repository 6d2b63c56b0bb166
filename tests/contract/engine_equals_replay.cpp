// Two evaluators must agree: the engine on the lowered stage graph and the replay of the schedule give every action the
// same start and end, to the picosecond, and every rank the same peak memory, with free and with blocking transfers,
// over random pipelines.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <tuple>

#include "cluster/cluster.hpp"
#include "engine/sim.hpp"
#include "graph/validate.hpp"
#include "lower/lowering.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "timeline/memory.hpp"

using namespace rehearsal;

namespace {

using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, int>;  // rank, stage, micro-batch, pass
using Times = std::map<Key, std::pair<Time, Time>>;

graph::Pass pass_of(schedule::Op op) {
  switch (op) {
    case schedule::Op::forward:
      return graph::Pass::forward;
    case schedule::Op::input_gradient:
      return graph::Pass::input_gradient;
    case schedule::Op::weight_gradient:
      return graph::Pass::weight_gradient;
    default:
      return graph::Pass::backward;
  }
}

lower::GivenPipeline random_pipeline(std::mt19937& random, std::uint32_t p, std::uint32_t v, std::uint32_t m) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  // Times from zero to ten milliseconds in odd picoseconds, so that nothing divides by accident.
  const auto time = [&] { return Time(pick(0, 3) == 0 ? 0 : pick(1, 10'000'000'001)); };
  lower::GivenPipeline pipeline{p, v, m, {}, time(), pick(0, 1) == 1};
  for (std::uint32_t s = 0; s < p * v; s++) pipeline.leaves_domain.push_back(pick(0, 1));
  for (std::uint32_t s = 0; s < p * v; s++) pipeline.stages.push_back({time(), time(), time()});
  for (auto& stage : pipeline.stages) {
    stage.activation = Bytes(pick(0, 9));
    stage.weight_hold = Bytes(pick(0, stage.activation.count()));  // a part of the activation
  }
  return pipeline;
}

// Messages occupy their wire for none, all or a share of their time.
std::vector<Time> on_the_wire(std::vector<Time> durations, std::uint32_t eighths) {
  for (auto& time : durations) time = Time(time.count() / 8 * eighths);
  return durations;
}

std::vector<Time> wait_times(std::span<const graph::Work> works) {
  std::vector<Time> times;
  for (const auto& work : works) {
    const auto* wait = std::get_if<graph::FixedDelay>(&work);
    times.push_back(wait ? wait->duration : Time{});
  }
  return times;
}

}  // namespace

TEST_CASE("engine on the lowered stage graph = replay of the schedule") {
  std::mt19937 random(20240110);
  std::size_t cases = 0, actions = 0;
  for (int round = 0; round < 60; round++) {
    for (const auto& [name, schedule] : schedule::registry()) {
      const std::uint32_t p = 1 + random() % 6;
      const std::uint32_t v = schedule.min_chunks + (schedule.max_chunks > schedule.min_chunks ? random() % 3 : 0);
      const std::uint32_t m = 1 + random() % 14;
      auto pipeline = random_pipeline(random, p, v, m);
      if (schedule.cuts_sequences) {
        pipeline.pieces = 1 + random() % 4;
        for (auto& stage : pipeline.stages) {  // so that every piece has as much
          stage.activation = Bytes(stage.activation.count() * pipeline.pieces);
          stage.weight_hold = Bytes(stage.weight_hold.count() * pipeline.pieces);
        }
      }
      lower::Lowering lowering(pipeline);
      const auto eighths = static_cast<std::uint32_t>(random() % 9);
      const auto times = wait_times(lowering.works());
      auto problem = lowering.problem(times, on_the_wire(times, eighths));
      problem.pieces = pipeline.pieces;
      try {
        schedule::check(schedule, problem);
      } catch (const UserError&) {
        continue;  // not legal for this schedule
      }
      CAPTURE(name);
      CAPTURE(p);
      CAPTURE(v);
      CAPTURE(m);
      CAPTURE(pipeline.blocking_sends);
      CAPTURE(eighths);
      Times expected;
      std::vector<std::pair<Key, Key>> pairs;  // overlapped: one entry, the forward's, for both
      bool in_pair = false;
      schedule::ReplayOptions options;
      options.transfers = pipeline.blocking_sends ? schedule::Transfers::blocking : schedule::Transfers::free;
      options.visit = [&](const schedule::ReplayedAction& a) {
        const Key key{a.rank, a.action.stage, a.action.microbatch, int(pass_of(a.action.op))};
        if (in_pair)
          pairs.back().second = key;
        else
          expected[key] = {a.start, a.end};
        in_pair = a.action.overlaps_next;
        if (in_pair) pairs.push_back({key, key});
      };
      const auto replayed = schedule::replay(schedule, problem, options);

      if (schedule.asynchrony || schedule.placement == schedule::Placement::vocabulary) {
        CHECK_THROWS_WITH_AS(std::move(lowering).lower(schedule, problem, {}),
                             doctest::Contains("but not yet in `rehearse run`"), UserError);
        continue;
      }
      const auto graph = std::move(lowering).lower(schedule, problem, {}).graph;
      graph::validate(graph);
      const auto durations = wait_times(graph.works()), held = on_the_wire(durations, eighths);
      const auto session = engine::make_sim()->prepare(graph);
      for (const char* engine : {"replay", "events"}) {
        CAPTURE(engine);
        backend::RunOptions run;
        run.durations = durations;
        run.held = held;
        run.engine = engine;
        const auto timeline = session->run(run);
        Times got;
        for (std::uint32_t r = 0; r < graph.ranks().size(); r++) {
          const auto& rank = graph.ranks()[r];
          const auto& program = graph.program_of(rank);
          for (std::size_t i = 0; i < program.size(); i++) {
            if (program.lane[i] != graph::Lane::compute) continue;
            const auto& at = program.coordinates[i];
            const Key key{r, at.stage, at.microbatch, int(at.pass)};
            const auto task = rank.first_task + i;
            const bool send = program.endpoint[i] != graph::kNoEndpoint;
            if (!send)
              got[key] = {timeline.start[task], timeline.end[task]};
            else
              got[key].second = timeline.end[task];  // a blocking send lengthens its action
          }
        }
        for (const auto& [forward, backward] : pairs) {
          got[forward].second = std::max(got[forward].second, got[backward].second);
          got.erase(backward);
        }
        REQUIRE(got.size() == expected.size());
        for (const auto& [key, times] : expected) {
          REQUIRE(got.count(key) == 1);
          REQUIRE(got[key].first == times.first);
          REQUIRE(got[key].second == times.second);
        }
        CHECK(timeline.makespan() == replayed.makespan);
        for (std::uint32_t r = 0; r < graph.ranks().size(); r++)
          CHECK(double(timeline::memory_peak(graph, timeline, RankId(r)).peak.count()) == replayed.peak_memory[r]);
      }
      cases++, actions += expected.size();
    }
  }
  MESSAGE(cases << " pipelines, " << actions << " actions equal to the picosecond");
  CHECK(cases > 150);
}
