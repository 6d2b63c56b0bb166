#include "answer/predict.hpp"

#include <utility>

#include "answer/idle_keys.hpp"
#include "answer/post_validation.hpp"
#include "answer/whole_run.hpp"
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

Question::Skipped skipped(scenario::Scenario scenario, Options options) {
  scenario.concrete->training.skipped = true;
  options.summary = {.memory = false, .critical_path = false}, options.idle_keys = false;
  const auto step = predict(scenario, options);
  return {step.summary.iteration, step.question->hardware_flops};
}

}  // namespace

Prediction predict(const scenario::Scenario& scenario, const Options& options) {
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
  if (options.idle_keys && scenario.concrete) {
    for (auto& warning : idle_keys(scenario, *question)) prediction.warnings.push_back(std::move(warning));
  }
  prediction.question = std::move(question);
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
