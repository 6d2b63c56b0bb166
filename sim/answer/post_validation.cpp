#include "answer/post_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "engine/sim.hpp"
#include "lower/consecutive.hpp"

namespace rehearsal::answer {
namespace {

using graph::Lane;
using graph::Pass;

// Local index of the first task of the last forward before the first backward.
std::size_t last_warmup_forward(const graph::Program& program) {
  std::optional<std::size_t> found;
  std::uint32_t stage = 0, microbatch = graph::kNoMicrobatch;
  for (std::size_t i = 0; i < program.size(); i++) {
    if (program.lane[i] != Lane::compute) continue;
    const auto& at = program.coordinates[i];
    if (at.pass == Pass::recompute || at.pass == Pass::input_gradient || at.pass == Pass::backward) break;
    if (at.pass != Pass::forward || (at.stage == stage && at.microbatch == microbatch)) continue;
    stage = at.stage, microbatch = at.microbatch, found = i;
  }
  INVARIANT(found, "a pipeline rank begins with a forward");
  return *found;
}

// Where each pipeline rank waits for the full state: at the running maximum, from the last rank down, of (start of the
// last warm-up forward - time of a message), as in zero-bubble-pipeline-parallelism; that is, before the first task
// that starts then or later. The state has probably arrived by then, so that the rank does not idle for it.
std::vector<LocalTask> validation_places(const LoweredJob& lowered, const timeline::Timeline& timeline,
                                         std::size_t pipeline, std::span<const Time> message_times) {
  const auto& graph = lowered.graph;
  const auto ranks = lower::by_pipeline_rank(graph, static_cast<std::uint32_t>(pipeline));
  std::vector<LocalTask> places(pipeline);
  Time not_before;
  for (std::size_t r = pipeline; r-- > 0;) {
    const auto& rank = graph.ranks()[ranks[r].front().index()];
    const auto& program = graph.program_of(rank);
    const Time* start = timeline.start.data() + rank.first_task;
    std::size_t place = last_warmup_forward(program);
    not_before = std::max(not_before, start[place] - (r + 1 < pipeline ? message_times[r] : Time{}));
    // The last warm-up forward starts no earlier than its own term of the maximum; another rank's term may be later.
    for (std::size_t i = place; i < program.size() && start[place] < not_before; i++)
      if (program.lane[i] == Lane::compute && program.coordinates[i].microbatch != graph::kNoMicrobatch) place = i;
    places[r] = LocalTask(place);
  }
  return places;
}

// When the norm exceeds the limit, the step is rolled back and redone, and the part of the next iteration that ran
// before the validation is rerun (section 4 of the paper).
Time time_of_rollback(const LoweredJob& lowered, std::size_t pipeline, std::span<const LocalTask> places) {
  const auto& graph = lowered.graph;
  const auto ranks = lower::by_pipeline_rank(graph, static_cast<std::uint32_t>(pipeline));
  Time worst;
  for (std::size_t r = 0; r < pipeline; r++) {
    const auto& program = graph.program_of(graph.ranks()[ranks[r].front().index()]);
    Time sum;
    for (std::size_t i = 0; i < program.size(); i++) {
      const Time duration = lowered.durations[program.work[i].index()];
      if (program.lane[i] != Lane::compute) continue;
      if (i < places[r].index()) sum += duration;
      if (program.coordinates[i].pass == Pass::optimizer) sum += 2 * duration;
    }
    worst = std::max(worst, sum);
  }
  return worst;
}

}  // namespace

void post_validate(LoweredJob& lowered, timeline::Timeline& timeline, const std::string& engine) {
  const auto& scenario = lowered.scenario;
  const auto pipeline = static_cast<std::size_t>(scenario.parallelism.pipeline);
  const auto iterations = static_cast<std::size_t>(scenario.simulate.iterations);
  const auto messages = lower::state_messages(lowered.graph, static_cast<std::uint32_t>(pipeline));
  const auto message_times = price(scenario, messages).durations;
  const auto places = validation_places(lowered, timeline, pipeline, message_times);
  const auto joined = lower::consecutive(lowered.graph, static_cast<std::uint32_t>(pipeline),
                                         static_cast<std::uint32_t>(iterations), messages, places);

  const auto prices = price(scenario, joined.graph.works());
  const auto simulator = engine::make_sim();
  backend::RunOptions options;
  options.durations = prices.durations;
  options.held = prices.held;
  options.engine = engine;
  const auto all = simulator->prepare(joined.graph)->run(options);

  // An iteration ends with its last task on any rank.
  const auto& ranks = lowered.graph.ranks();
  std::vector<Time> end(iterations);
  const auto place_of = [&](std::size_t r, std::size_t k, std::size_t i) {
    const std::size_t n = lowered.graph.program_of(ranks[r]).size();
    return joined.graph.ranks()[r].first_task + joined.at[ranks[r].place[Axis::pipeline]][k * n + i].value;
  };
  for (std::size_t r = 0; r < ranks.size(); r++)
    for (std::size_t k = 0; k < iterations; k++)
      for (std::size_t i = 0; i < lowered.graph.program_of(ranks[r]).size(); i++)
        end[k] = std::max(end[k], all.end[place_of(r, k, i)]);

  const std::size_t last = iterations - 1;
  const Time zero = last > 0 ? end[last - 1] : Time{};
  for (std::size_t r = 0; r < ranks.size(); r++)
    for (std::size_t i = 0; i < lowered.graph.program_of(ranks[r]).size(); i++) {
      const std::size_t task = ranks[r].first_task + i;
      timeline.start[task] = all.start[place_of(r, last, i)] - zero;
      timeline.end[task] = all.end[place_of(r, last, i)] - zero;
    }
  timeline.engine = all.engine;
  const double probability = scenario.optimizer_sync.rollback_probability;
  const Time rollback = time_of_rollback(lowered, pipeline, places);
  const Time expected = seconds(to_seconds(rollback) * probability);
  for (std::size_t k = 0; k < iterations; k++)
    timeline.iteration_end[k] = end[k] - (k ? end[k - 1] : Time{}) + expected;

  lowered.assumptions.push_back(
      fmt::format("optimizer post-validation: iterations overlap; the time is the period from iteration {} to {}",
                  std::max<std::size_t>(iterations, 2) - 1, iterations));
  if (probability > 0)
    lowered.assumptions.push_back(
        fmt::format("steps are taken back with probability {}, which costs {} each time: the "
                    "step undone and redone, the next warm-up repeated",
                    probability, show(rollback)));
  if (iterations == 1)
    lowered.warnings.push_back(
        "post-validation lets iterations overlap, but simulate.iterations is 1: nothing to overlap with; set 3");
}

}  // namespace rehearsal::answer
