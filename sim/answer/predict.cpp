#include "answer/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "answer/post_validation.hpp"
#include "answer/simulated.hpp"
#include "answer/unused_settings.hpp"
#include "answer/whole_run.hpp"
#include "base/error.hpp"
#include "engine/sim.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::answer {

Result Result::brief() && {
  Result kept = std::move(*this);
  kept.lowered.reset();
  kept.timeline = {};
  return kept;
}

namespace {

// With a tied embedding both ends of the pipeline hold the table and sum its gradients.
bool shares_table(const graph::TaskGraph& graph) {
  return std::any_of(graph.programs().begin(), graph.programs().end(), [](const graph::Program& program) {
    return std::any_of(program.coordinates.begin(), program.coordinates.end(),
                       [](const auto& at) { return at.pass == graph::Pass::embedding_reduce; });
  });
}

// For auxiliary steps of which only the time is used.
Options time_alone(Options options) {
  options.summary = Options::time_alone().summary, options.reread = {};
  options.assumptions = options.faults = options.other_framework = false;
  return options;
}

LoweredJob::Skipped skipped(scenario::Scenario scenario, const Options& options) {
  scenario.concrete->training.skipped = true;
  const auto step = predict(scenario, time_alone(options));
  return {step.summary.iteration, step.lowered->hardware_flops};
}

// The strategy that is fastest for each stage boundary alone need not be fastest in the step, where transfers overlap
// passes and contend. So `resharding.strategy: auto` predicts the step with each; the first of equals is kept.
std::optional<reshard::Strategy> best_resharding(const scenario::Scenario& scenario, const Options& options) {
  using enum reshard::Strategy;
  const auto& layouts = scenario.parallelism.layouts;
  const bool alike =
      std::all_of(layouts.begin(), layouts.end(), [&](const auto& l) { return l.like(layouts.front()); });
  if (layouts.size() < 2 || scenario.resharding.strategy != automatic || (alike && !scenario.resharding.asked))
    return std::nullopt;
  auto quick = time_alone(options);
  quick.chosen = true;
  auto best = automatic;
  Time least = predict(scenario, quick).summary.iteration;
  for (const auto strategy : {broadcast, send_recv, local_allgather, alpa_allgather, global_allgather}) {
    auto other = scenario;
    other.resharding.strategy = strategy;
    try {
      const Time time = predict(other, quick).summary.iteration;
      if (time < least) least = time, best = strategy;
    } catch (const UserError&) {  // too many messages to plan
    }
  }
  return best;
}

Result as_chosen(const scenario::Scenario& scenario, const Options& options, reshard::Strategy strategy) {
  auto chosen = scenario;
  chosen.resharding.strategy = strategy;
  auto options_of_it = options;
  options_of_it.chosen = true;
  auto prediction = predict(chosen, options_of_it);
  prediction.assumptions.push_back(fmt::format("resharding auto: of all ways the step takes least with {}.",
                                               strategy == reshard::Strategy::automatic
                                                   ? "what is fastest for each border alone"
                                                   : std::string(reshard::name(strategy))));
  return prediction;
}

}  // namespace

namespace {

Result predicted(const scenario::Scenario& scenario, const Options& options, const Result* beside) {
  if (!options.chosen)
    if (const auto strategy = best_resharding(scenario, options)) return as_chosen(scenario, options, *strategy);
  auto lowered = std::make_shared<LoweredJob>(prepare(scenario, options.without, options.assumptions));
  const auto run = run_of(*lowered, options.engine);
  Result prediction;
  const bool known = beside && same_timeline(*beside->lowered, *lowered);
  prediction.timeline = known ? beside->timeline : engine::make_sim()->prepare(lowered->graph)->run(run);
  if (scenario.optimizer_sync.post_validation && scenario.optimizer_sync.performed == 0) {
    const auto barrier = prediction.timeline.makespan();
    post_validate(*lowered, prediction.timeline, options.engine);
    if (prediction.timeline.makespan() == barrier)
      lowered->warnings.emplace_back(
          "'training.optimizer_sync' post-validation changes nothing here: no iteration can begin before the last "
          "ends");
    else if (shares_table(lowered->graph))
      lowered->warnings.push_back(
          fmt::format("'training.optimizer_sync' post-validation saves {:.1f} % here: the embedding is tied "
                      "(model.tie_embeddings), so the first stage steps when the last one has its gradient of the "
                      "table, and begins no iteration before that",
                      100 - 100 * (prediction.timeline.makespan() / barrier)));
  }
  std::optional<Served> served;
  if (scenario.data_parallel.served())
    served = scenario.data_parallel.synchronous()   ? synchronous(scenario, prediction.timeline.makespan())
             : scenario.data_parallel.performed > 0 ? in_turn(*lowered, prediction.timeline.makespan())
                                                    : delayed(*lowered, prediction.timeline, run);
  if (scenario.concrete && scenario.concrete->training.scales_loss() && !scenario.concrete->training.skipped)
    lowered->skipped = skipped(scenario, options);
  prediction.summary = summarize(*lowered, prediction.timeline, options.summary);
  prediction.summary.served = served;
  if (scenario.job && options.summary.job) {
    auto& job = prediction.summary.job.emplace(whole_run(*lowered, prediction.summary));
    if (!job.fits) prediction.summary.fits = false;
    for (auto& said : job.assumptions) lowered->assumptions.push_back(std::move(said));
    for (auto& said : job.warnings) lowered->warnings.push_back(std::move(said));
  }
  prediction.assumptions = std::move(lowered->assumptions);
  prediction.warnings = std::move(lowered->warnings);
  if (options.faults && !scenario.faults.empty()) {
    prediction.faulted = faulted(*lowered, prediction.timeline);
    if (auto anomaly = anomaly_of_faults(*prediction.faulted, prediction.summary.iteration))
      prediction.warnings.push_back(*std::move(anomaly));
  }
  if (options.other_framework) prediction.other_framework = with_other_framework(scenario, lowered->graph.tasks());
  prediction.lowered = std::move(lowered);
  if (options.reread && scenario.concrete) {
    for (auto& warning : unused_settings(prediction, options.reread)) prediction.warnings.push_back(std::move(warning));
  }
  return prediction;
}

}  // namespace

Result predict(const scenario::Scenario& scenario, const Options& options) {
  return predicted(scenario, options, nullptr);
}
Result predict_beside(const Result& known, const scenario::Scenario& scenario, const Options& options) {
  return predicted(scenario, options, &known);
}

Result performed(const Result& predicted, timeline::Timeline timeline) {
  Result answer;
  answer.lowered = predicted.lowered;
  answer.assumptions = predicted.assumptions, answer.warnings = predicted.warnings;
  answer.timeline = std::move(timeline);
  answer.summary = summarize(*answer.lowered, answer.timeline);
  answer.summary.served = predicted.summary.served;  // staleness follows from the order of the programs
  if (auto& served = answer.summary.served; served && answer.timeline.makespan() > Time{})
    served->steps_per_s *= predicted.timeline.makespan() / answer.timeline.makespan();
  auto& measured = answer.measured.emplace();
  measured.iterations = timeline::spread(answer.timeline);
  measured.predicted = predicted.timeline.makespan();
  const auto& graph = answer.graph();
  for (std::size_t r = 0; r < graph.ranks().size(); r++)
    measured.predicted_allocated.push_back(timeline::memory_peak(graph, predicted.timeline, RankId(r)).peak);
  for (std::size_t r = 0; r < answer.timeline.beyond_bytes.size(); r++) {
    auto& beyond = measured.predicted_beyond.emplace_back(kTiers);
    for (const Tier tier : {Tier::host, Tier::nvme})
      beyond[index(tier)] = timeline::memory_peak(graph, predicted.timeline, RankId(r), tier).peak;
  }
  return answer;
}

}  // namespace rehearsal::answer
