// Timed tasks of a performed run keep to the graph. What `rehearse measure` and `validate` say:
// tests/cli/measure_validate.cli.
#include <doctest/doctest.h>

#include "explore/perform.hpp"
#include "loopback/loopback.hpp"
#include "timeline/compare.hpp"

using namespace rehearsal;

// Four ranks, 1F1B: 8 micro-batches take (8 + 3) x 15 ms and six messages of 1 ms on the way in and out.
TEST_CASE("timed tasks keep to the graph and are never faster than rehearsed") {
  const auto [scenario, compute] =
      explore::load_performable(PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml",
                                {"parallelism.pipeline=4", "batch.microbatches=8",
                                 "costs={forward: 5ms, backward: 5ms, weight: 5ms, transfer: 1ms}"},
                                std::nullopt, "loopback");
  CHECK(compute == backend::Compute::timed);
  const auto rehearsed = answer::predict(scenario);
  const auto& graph = rehearsed.graph();
  const auto loopback = loopback::make_loopback();
  backend::RunOptions options;
  options.warmup = 1, options.iterations = 3;
  const auto real = explore::perform(*rehearsed.lowered, *loopback, options).timeline;
  CHECK(real.fidelity == timeline::Fidelity::timed);
  CHECK(real.iterations.size() == 3);
  CHECK(timeline::spread(real).iterations == 3);
  for (const auto& iteration : real.iterations)
    for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
      const auto& program = graph.program_of(graph.ranks()[r]);
      for (std::size_t i = 0; i < program.size(); ++i) {
        const auto task = graph.task(RankId(r), LocalTask(i)).index();
        for (const LocalTask before : program.dependencies[i])
          CHECK(iteration.end[graph.task(RankId(r), before).index()] <= iteration.start[task]);
        // In a schedule without free choices no task can end before its rehearsed end; 1 % of the whole for clocks.
        CHECK(double(iteration.end[task].count()) >=
              double(rehearsed.timeline.end[task].count()) - .01 * double(rehearsed.timeline.makespan().count()));
      }
    }
}
