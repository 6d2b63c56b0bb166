#include "answer/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "answer/idle_keys.hpp"
#include "answer/post_validation.hpp"
#include "answer/whole_run.hpp"
#include "base/error.hpp"
#include "engine/sim.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::answer {

Answer Answer::brief() && {
  Answer kept = std::move(*this);
  kept.question.reset();
  kept.timeline = {};
  return kept;
}

namespace {

// Both ends of a pipeline hold the table of a tied embedding, and add up its gradients.
bool shares_table(const graph::TaskGraph& graph) {
  return std::any_of(graph.programs().begin(), graph.programs().end(), [](const graph::Program& program) {
    return std::any_of(program.coordinates.begin(), program.coordinates.end(),
                       [](const auto& at) { return at.pass == graph::Pass::embedding_reduce; });
  });
}

// Of a step beside the one that is asked for, whose time alone counts.
Options time_alone(Options options) {
  options.summary = {.memory = false, .critical_path = false}, options.reread = {};
  options.faults = options.other_software = false;
  return options;
}

Question::Skipped skipped(scenario::Scenario scenario, const Options& options) {
  scenario.concrete->training.skipped = true;
  const auto step = predict(scenario, time_alone(options));
  return {step.summary.iteration, step.question->hardware_flops};
}

// What is least for one border alone need not be least in the step, where transfers run beside passes and get into each
// other's way: with `resharding.strategy: auto` the step is predicted by each. The first of equals stays.
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
    } catch (const UserError&) {  // more messages than are planned
    }
  }
  return best;
}

Prediction as_chosen(const scenario::Scenario& scenario, const Options& options, reshard::Strategy strategy) {
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

Prediction predict(const scenario::Scenario& scenario, const Options& options) {
  if (!options.chosen)
    if (const auto strategy = best_resharding(scenario, options)) return as_chosen(scenario, options, *strategy);
  auto question = std::make_shared<Question>(prepare(scenario, options.without));
  const auto simulator = engine::make_sim();
  backend::RunOptions run;
  run.durations = question->durations;
  run.held = question->held;
  run.iterations = scenario.data_parallel.performed > 0 ? 1 : scenario.simulate.iterations;
  run.engine = options.engine;
  if (run.engine == "auto" && scenario.simulate.network == scenario::Network::fluid && question->surroundings)
    run.engine = "fluid";
  run.footprints = question->footprints;
  if (question->surroundings) run.places = &question->surroundings->places;
  Prediction prediction;
  prediction.timeline = simulator->prepare(question->graph)->run(run);
  if (scenario.optimizer_sync.post_validation && scenario.optimizer_sync.performed == 0) {
    const auto barrier = prediction.timeline.makespan();
    post_validate(*question, prediction.timeline, options.engine);
    if (prediction.timeline.makespan() == barrier)
      question->warnings.emplace_back(
          "'training.optimizer_sync' post-validation changes nothing here: no iteration can begin before the last "
          "ends");
    else if (shares_table(question->graph))
      question->warnings.push_back(
          fmt::format("'training.optimizer_sync' post-validation saves {:.1f} % here: the embedding is tied "
                      "(model.tie_embeddings), so the first stage steps when the last one has its gradient of the "
                      "table, and begins no iteration before that",
                      100 - 100 * (prediction.timeline.makespan() / barrier)));
  }
  std::optional<Served> served;
  if (scenario.data_parallel.served())
    served = scenario.data_parallel.synchronous()   ? synchronous(scenario, prediction.timeline.makespan())
             : scenario.data_parallel.performed > 0 ? in_turn(*question, prediction.timeline.makespan())
                                                    : delayed(*question, prediction.timeline, run);
  if (scenario.concrete && scenario.concrete->training.scales_loss() && !scenario.concrete->training.skipped)
    question->skipped = skipped(scenario, options);
  prediction.summary = summarize(*question, prediction.timeline, options.summary);
  prediction.summary.served = served;
  if (scenario.job) {
    auto& job = prediction.summary.job.emplace(whole_run(*question, prediction.summary));
    for (auto& said : job.assumptions) question->assumptions.push_back(std::move(said));
    for (auto& said : job.warnings) question->warnings.push_back(std::move(said));
  }
  prediction.assumptions = std::move(question->assumptions);
  prediction.warnings = std::move(question->warnings);
  if (options.faults && !scenario.faults.empty()) {
    prediction.faulted = faulted(*question, prediction.timeline);
    if (auto anomaly = anomaly_of_faults(*prediction.faulted, prediction.summary.iteration))
      prediction.warnings.push_back(*std::move(anomaly));
  }
  if (options.other_software) prediction.other_software = with_other_software(scenario, question->graph.tasks());
  prediction.question = std::move(question);
  if (options.reread && scenario.concrete) {
    for (auto& warning : idle_keys(prediction, options.reread)) prediction.warnings.push_back(std::move(warning));
  }
  return prediction;
}

Answer performed(const Prediction& predicted, timeline::Timeline timeline) {
  Answer answer;
  answer.question = predicted.question;
  answer.assumptions = predicted.assumptions, answer.warnings = predicted.warnings;
  answer.timeline = std::move(timeline);
  answer.summary = summarize(*answer.question, answer.timeline);
  answer.summary.served = predicted.summary.served;  // what is late is so by the order of the programs
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
