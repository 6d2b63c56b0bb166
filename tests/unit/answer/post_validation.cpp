// Iterations without a barrier between them (sim/design/optimizer-sync.md).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "answer/predict.hpp"
#include "graph/validate.hpp"
#include "lower/consecutive.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "timeline/breakdown.hpp"

using namespace rehearsal;
using namespace rehearsal::answer;

namespace {

Result teaching(std::vector<std::string> sets, const std::string& engine = "auto") {
  return predict(scenario::load(std::string(PROJECT_ROOT) + "/scenarios/teaching-zb-h1-8-stages.yaml", sets),
                 {.engine = engine});
}

std::vector<std::string> unit_times(const std::string& schedule, int pipeline, int microbatches, bool overlap,
                                    const std::string& transfer = "0") {
  return {"schedule=" + schedule, fmt::format("parallelism.pipeline={}", pipeline),
          fmt::format("batch.microbatches={}", microbatches),
          "costs={forward: 10ms, backward: 10ms, weight: 10ms, transfer: " + transfer + "}",
          fmt::format("training.optimizer_sync={}", overlap ? "post-validation" : "barrier")};
}

Time period(const Result& r) { return r.timeline.makespan(); }
Time ms(std::int64_t n) { return Time(n * 1'000'000'000); }

}  // namespace

TEST_CASE("ZB-H2 without a barrier: the period is the work of a rank") {
  // F = I = W = 10 ms and free messages. ZB-H2 has no bubble: every rank works m S = 24 * 30 = 720 ms without a gap,
  // and rank r starts r F after rank 0. With a barrier an iteration lasts until rank 7 has ended: 720 + 7 * 10 = 790
  // ms. Without one each rank goes on at once. The state does not stop them: rank 7 ends 70 ms after rank 0, just when
  // rank 0 reaches the place where it validates, 70 ms into its next iteration.
  CHECK(period(teaching(unit_times("zb-h2", 8, 24, false))) == ms(790));
  const auto overlapped = teaching(unit_times("zb-h2", 8, 24, true));
  CHECK(period(overlapped) == ms(720));
  REQUIRE(overlapped.timeline.iteration_end.size() == 3);
  CHECK(overlapped.timeline.iteration_end[0] == ms(790));  // the first has nothing to overlap with
  CHECK(overlapped.timeline.iteration_end[1] == ms(720));
  // Rank 0 starts under the tail of the iteration before: 70 ms before its end.
  CHECK(*std::min_element(overlapped.timeline.start.begin(), overlapped.timeline.start.end()) == ms(-70));
}

TEST_CASE("schedules whose rank 0 starts first and ends last gain nothing") {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    CAPTURE(schedule);
    CHECK(period(teaching(unit_times(schedule, 8, 24, true))) == period(teaching(unit_times(schedule, 8, 24, false))));
  }
}

TEST_CASE("the period lies between the cost of the schedule and its makespan") {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2", "eager-1f1b"}) {
    for (const auto& [pipeline, microbatches] : {std::pair{2, 5}, std::pair{4, 8}, std::pair{8, 24}}) {
      CAPTURE(schedule);
      CAPTURE(pipeline);
      auto sets = unit_times(schedule, pipeline, microbatches, true);
      const auto overlapped = teaching(sets);
      const auto replayed = schedule::replay(schedule::registry().at(schedule), overlapped.lowered->problem);
      CHECK(period(overlapped) >= replayed.cost);
      CHECK(period(overlapped) <= replayed.makespan);
    }
  }
}

TEST_CASE("the state travels under the work") {
  // p = 2, m = 1, B = I + W = 20 ms, messages 100 ms. Rank 0: F 0-10, B 240-260; rank 1: F 110-120, B 120-140.
  // Rank 0 combines at 260 and begins again: F 260-270. Its part of the state reaches rank 1 at 360, its activation at
  // 370; rank 1 has validated by then and the full state is back at 460, before the gradient at 500. Rank 0 validates
  // there (the running maximum is rank 1's forward, 110 ms after the start): B 500-520. Nothing waits, the period is
  // 260.
  const auto r = teaching({"schedule=gpipe", "parallelism.pipeline=2", "batch.microbatches=1",
                           "costs={forward: 10ms, backward: 10ms, weight: 10ms, transfer: 100ms}",
                           "training.optimizer_sync=post-validation"});
  CHECK(period(r) == ms(260));
}

TEST_CASE("the joined graph: copies, and three kinds of tasks between them") {
  const auto one = teaching(unit_times("zb-h2", 4, 8, false)).graph();
  const auto messages = lower::state_messages(one, 4);
  CHECK(messages.size() == 3);
  std::vector<LocalTask> places;  // before the last task of each rank; any place that makes no circle will do
  for (const auto& program : one.programs()) places.emplace_back(program.size() - 1);
  const auto joined = lower::consecutive(one, 4, 3, messages, places);
  graph::validate(joined.graph);
  // 4 ranks combine 3 times and validate twice; over 3 gaps go a partial state (send and receive) 3 times and a full
  // one twice.
  CHECK(joined.graph.tasks() == 3 * one.tasks() + 4 * 3 + 4 * 2 + 3 * 2 * 3 + 3 * 2 * 2);
  for (std::size_t w = 0; w < one.works().size(); w++) CHECK(joined.graph.works()[w] == one.works()[w]);
  CHECK(joined.at[2].size() == 3 * one.programs()[2].size());
}

TEST_CASE("both evaluators agree; the breakdown sums to the period") {
  for (const char* schedule : {"zb-h2", "zb-h1", "1f1b"}) {
    const auto sets = unit_times(schedule, 4, 9, true, "3ms");
    const auto a = teaching(sets, "replay"), b = teaching(sets, "events");
    CHECK(a.timeline.start == b.timeline.start);
    CHECK(a.timeline.iteration_end == b.timeline.iteration_end);
    const auto last = timeline::last_rank(a.graph(), a.timeline);
    Time sum;
    for (const Time part : timeline::breakdown(a.graph(), a.timeline, last, a.lowered->durations)) sum += part;
    CHECK(sum == period(a));
  }
}

TEST_CASE("steps taken back cost their expected time") {
  // Probability 0.5; given pipelines step in no time. Rank 0 of ZB-H2 (p = 8) repeats what it ran before its
  // validation: 14 of its 2p-1 warm-up forwards; rank 7 validates before its first task. Expected: 0.5 * 140 ms = 70.
  auto sets = unit_times("zb-h2", 8, 24, true);
  sets.push_back("training.rollback_probability=0.5");
  CHECK(period(teaching(sets)) == ms(720 + 70));
}

TEST_CASE("models: every detail, sharded optimizers and single ranks") {
  const auto concrete = [](std::vector<std::string> sets) {
    sets.push_back("training.optimizer_sync=post-validation");
    return predict(scenario::load(std::string(PROJECT_ROOT) + "/scenarios/llama3-70b-64xh100.yaml", sets));
  };
  const auto stage = concrete({});
  CHECK(period(stage) == period(concrete({"simulate.detail=layer"})));
  CHECK(period(stage) == period(concrete({"simulate.iterations=5"})));  // steady from the second on
  const auto barrier = predict(scenario::load(std::string(PROJECT_ROOT) + "/scenarios/llama3-70b-64xh100.yaml", {}));
  CHECK(period(stage) <= period(barrier) + ms(1));  // messages of the state may add a little
  CHECK(period(concrete({"simulate.symmetry=off", "parallelism.zero=1"})) == period(concrete({"parallelism.zero=1"})));
  // One pipeline rank: nobody to agree with along the pipeline, and nothing changes.
  const auto one = predict(scenario::load(std::string(PROJECT_ROOT) + "/scenarios/llama3-8b-dgx-h100.yaml",
                                          {"training.optimizer_sync=post-validation"}));
  CHECK(period(one) > Time{});
}
