#include "published/against.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "answer/simulated.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "published/constants.hpp"
#include "scenario/check.hpp"

namespace rehearsal::published {
namespace {

constexpr double kGb = 1e9, kGib = 1 << 30;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// How a printed peak was counted. nvidia-smi reports the device, torch's own counters what was reserved or
// allocated; frameworks that log "GB" divide by 2^30.
struct PeakKind {
  enum { allocated, reserved, device } counter = reserved;
  double unit = kGib;
};
PeakKind peak_kind(const Run& run) {
  PeakKind kind;
  if (has(run.memory_kind, "nvidia-smi")) kind.counter = PeakKind::device, kind.unit = kGb;
  if (has(run.memory_kind, "1e9 B")) kind.unit = kGb;
  if (has(run.memory_kind, "allocated")) kind.counter = PeakKind::allocated;
  return kind;
}

double peak_of(const answer::MemoryFigures& figures, const PeakKind& kind) {
  if (kind.counter == PeakKind::allocated) return figures.allocated;
  return kind.counter == PeakKind::device ? figures.device.value() : figures.reserved.value();
}

void add_memory(Prediction& p, const std::string& rank, const answer::Summary& summary) {
  p.fits = summary.fits.value_or(true), p.narrow = summary.narrow();
  const auto kind = peak_kind(p.run);
  const auto& figures = rank == "first"  ? summary.ranks.front().peak
                        : rank == "last" ? summary.ranks.back().peak
                                         : summary.peak;
  p.peak = peak_of(figures, kind);
  if (p.run.peak_memory && !p.run.out_of_memory()) p.measured_peak = *p.run.peak_memory * kind.unit;
}

// Megatron-Core's model FLOPs as a share of those counted here: for latent attention it counts only the half of the
// scores that a causal mask leaves (num_floating_point_operations of megatron/training/training.py).
double counted_share(const scenario::Scenario& scenario, double model_flops) {
  const auto& m = scenario.concrete->model;
  if (!m.mla) return 1;
  const double scores = 3 * models::attention_flops(m, scenario.batch.sequence).value() * double(scenario.batch.global);
  return 1 - scores / 2 / model_flops;
}

// What a key that nothing tells may be. Of recomputation the least that fits, and the next: nobody repeats more than
// memory asks for by two steps.
std::vector<std::string> plausible(const std::string& key) {
  if (key == "training.recompute") return {"none", "selective", "full"};
  if (key == "framework.dispatcher") return {"nccl", "deepep"};
  return {"false", "true"};
}

// Of a row whose recipe is not told: the first plausible values that fit, as changes, and how much shorter and longer
// than with these the step is with others.
struct Untold {
  std::vector<std::string> sets;
  scenario::BandRange steps;
};
Untold untold(const RowScenario& row, const std::string& where, const std::vector<std::string>& sets) {
  Untold all;
  for (const auto& key : row.untold) {
    std::vector<std::pair<std::string, double>> steps;
    for (const auto& value : plausible(key)) {
      auto with = sets;
      with.insert(with.end(), all.sets.begin(), all.sets.end()), with.push_back(key + "=" + value);
      try {
        const auto scenario = scenario::load_text(row.yaml, where, with);
        const auto prediction = answer::predict(scenario, {.summary = {.critical_path = false}, .assumptions = false});
        if (prediction.summary.fits.value_or(true))
          steps.emplace_back(key + "=" + value, to_seconds(prediction.summary.iteration));
      } catch (const UserError&) {
        continue;  // not of this framework
      }
      if (steps.size() == 2) break;
    }
    if (steps.empty()) continue;
    all.sets.push_back(steps.front().first);
    for (const auto& [change, seconds] : steps) {
      all.steps.low = std::min(all.steps.low, seconds / steps.front().second);
      all.steps.high = std::max(all.steps.high, seconds / steps.front().second);
    }
  }
  return all;
}

// A row that is predicted: its place among the runs, and the scenario that it describes.
struct Asked {
  std::size_t place = 0;
  RowScenario row;
};

// Rows that describe the same scenario are predicted once: a table may list a run several times, and tables each
// other's.
class Question {
 public:
  // Throws UserError.
  Question(const Asked& asked, const Run& run, const ValidationRun& options)
      : yaml_(asked.row.yaml), where_(fmt::format("{}:{}", run.file, run.line)), sets_(asked.row.sets) {
    sets_.insert(sets_.end(), options.sets.begin(), options.sets.end());
    const auto recipe = untold(asked.row, where_, sets_);
    sets_.insert(sets_.end(), recipe.sets.begin(), recipe.sets.end());
    recipes_ = recipe.steps;
    const auto scenario = scenario::load_text(yaml_, where_, sets_);
    prediction_ = answer::predict(scenario, {.without = options.without,
                                             .summary = {.memory = options.memory, .critical_path = false},
                                             .assumptions = false});
    known_.emplace(std::vector<std::string>(), to_seconds(prediction_.summary.iteration));
    steps_.add(prediction_);
  }

  const answer::Result& prediction() const { return prediction_; }
  // How much shorter and longer the step is with other recipes, where none is told.
  scenario::BandRange recipes() const { return recipes_; }
  // Seconds of a step with further settings.
  double with(const std::vector<std::string>& more) {
    auto step = known_.find(more);
    if (step != known_.end()) return step->second;
    auto all = sets_;
    all.insert(all.end(), more.begin(), more.end());
    const auto other = scenario::load_text(yaml_, where_, all);
    return known_.emplace(more, to_seconds(steps_.iteration(other))).first->second;
  }

 private:
  std::string yaml_, where_;
  std::vector<std::string> sets_;  // of the row and of the whole comparison, before any constants are removed
  scenario::BandRange recipes_;
  answer::Result prediction_;
  answer::KnownSteps steps_;
  std::map<std::vector<std::string>, double> known_;  // steps by what else is set
};

void add_forecasts(Prediction& p, Question& question, const std::vector<Constant>& constants) {
  for (const auto left : kLeft) {
    const auto without = forecast_of(constants, {p.family, p.kind.gpu, p.kind.framework, p.causes}, left);
    auto& forecast = p.forecasts[static_cast<std::size_t>(left)];
    forecast.missing = fmt::format("{}", fmt::join(without.missing, ", "));
    forecast.seconds = question.with(without.sets);
  }
}

void add_prediction(Prediction& p, const RowScenario& row, Question& question, const std::vector<Constant>& constants,
                    const ValidationRun& options) {
  const auto& prediction = question.prediction();
  const auto& scenario = prediction.scenario();
  const auto& summary = prediction.summary;
  p.iteration_s = to_seconds(summary.iteration), p.breakdown = summary.breakdown;
  p.kind = scenario::run_class(scenario, waiting(summary));
  p.family = family_of(p.run.table, p.kind.gpu, p.kind.framework);
  p.causes = causes_of(scenario, p.kind, row.fine_tuning);
  p.band = summary.error_band, p.recipes = question.recipes();
  if (p.band.low) *p.band.low *= p.recipes.low, *p.band.high *= p.recipes.high;
  // If only a rate is printed, the time follows from the model FLOPs as counted here.
  if (p.run.tflops)
    p.run.iteration_s = prediction.lowered->model_flops.value() *
                        counted_share(scenario, prediction.lowered->model_flops.value()) /
                        double(scenario.parallelism.gpus()) / (*p.run.tflops * 1e12);
  if (p.run.mfu && summary.mfu) p.run.iteration_s = p.iteration_s * *summary.mfu / *p.run.mfu;
  p.flops_per_gpu = prediction.lowered->hardware_flops.value() / double(scenario.parallelism.gpus());
  if (options.without && options.without->bubble)
    p.iteration_s -= to_seconds(summary.breakdown[static_cast<std::size_t>(graph::Category::bubble)]);
  if (options.memory) add_memory(p, row.peak_rank, summary);
  if (options.forecast) add_forecasts(p, question, constants);
}

// Of rows with one scenario.
void predict_alike(const std::vector<Asked>& rows, std::vector<Prediction>& predictions,
                   const std::vector<Constant>& constants, const ValidationRun& options) {
  std::optional<Question> question;
  for (const auto& asked : rows) {
    auto& p = predictions[asked.place];
    try {
      if (!question) question.emplace(asked, p.run, options);
      add_prediction(p, asked.row, *question, constants, options);
    } catch (const UserError& error) {
      if (auto unknown = scenario::unknown_keys(error.diagnostics(), options.sets); !unknown.empty())
        throw UserError(std::move(unknown));
      p.not_judged = error.diagnostics().front().message;
    }
  }
}

// How long a prediction takes, roughly: its layers times micro-batches. The longest begin first, so that all threads
// end together.
double length_of(const Run& run) {
  const auto number = [](const std::optional<std::int64_t>& value) {
    return double(std::max<std::int64_t>(1, value.value_or(1)));
  };
  const double model_parallel = number(run.tensor) * number(run.pipeline) * number(run.context);
  return number(run.layers) * number(run.global_batch) / number(run.micro_batch) * model_parallel / number(run.gpus);
}

}  // namespace

std::vector<Prediction> predict(const std::vector<Run>& runs, const ValidationRun& options) {
  const auto mapping = read_mapping();
  const auto constants = options.forecast ? read_constants() : std::vector<Constant>();
  std::vector<Prediction> predictions(runs.size());
  std::vector<RowScenario> described(runs.size());
  in_parallel(runs.size(), options.jobs, [&](std::size_t i) {
    predictions[i].run = runs[i];
    described[i] = scenario_of(runs[i], mapping, options.framework);
  });
  std::map<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>, std::vector<Asked>> by_scenario;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto& p = predictions[i];
    auto& row = described[i];
    p.not_judged = row.not_judged;
    if (!p.not_judged.empty()) continue;
    if (!row.not_timed.empty()) p.run.iteration_s.reset(), p.run.tflops.reset(), p.run.mfu.reset();
    by_scenario[{row.asks, row.sets, row.untold}].push_back({i, std::move(row)});
  }
  std::vector<const std::vector<Asked>*> questions;
  for (const auto& [asks, rows] : by_scenario) questions.push_back(&rows);
  std::stable_sort(questions.begin(), questions.end(), [&](const auto* a, const auto* b) {
    return length_of(runs[a->front().place]) > length_of(runs[b->front().place]);
  });
  in_parallel(
      questions.size(), options.jobs,
      [&](std::size_t i) { predict_alike(*questions[i], predictions, constants, options); }, options.done);
  return predictions;
}

}  // namespace rehearsal::published
