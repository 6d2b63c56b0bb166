#include "published/against.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "answer/predict.hpp"
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

// `sets`: of the row and of the whole comparison, before any constants are removed.
void add_forecasts(Prediction& p, const RowScenario& row, const std::vector<Constant>& constants,
                   const std::vector<std::string>& sets) {
  std::map<std::vector<std::string>, double> known{{{}, p.iteration_s}};  // steps by what is set
  for (const auto left : kLeft) {
    const auto without = forecast_of(constants, {p.family, p.kind.gpu, p.kind.framework, p.causes}, left);
    auto& forecast = p.forecasts[static_cast<std::size_t>(left)];
    forecast.missing = fmt::format("{}", fmt::join(without.missing, ", "));
    auto step = known.find(without.sets);
    if (step == known.end()) {
      auto all = sets;
      all.insert(all.end(), without.sets.begin(), without.sets.end());
      const auto scenario = scenario::load_text(row.yaml, fmt::format("{}:{}", p.run.file, p.run.line), all);
      const auto prediction = answer::predict(scenario, answer::Options::time_alone());
      step = known.emplace(without.sets, to_seconds(prediction.summary.iteration)).first;
    }
    forecast.seconds = step->second;
  }
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
Untold untold(const RowScenario& row, const Run& run, const std::vector<std::string>& sets) {
  Untold all;
  for (const auto& key : row.untold) {
    std::vector<std::pair<std::string, double>> steps;
    for (const auto& value : plausible(key)) {
      auto with = sets;
      with.insert(with.end(), all.sets.begin(), all.sets.end()), with.push_back(key + "=" + value);
      try {
        const auto scenario = scenario::load_text(row.yaml, fmt::format("{}:{}", run.file, run.line), with);
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

Prediction predict_row(const Run& run, const Mapping& mapping, const std::vector<Constant>& constants,
                       const ValidationRun& options) {
  Prediction p;
  p.run = run;
  const auto row = scenario_of(run, mapping, options.framework);
  p.not_judged = row.not_judged;
  if (!p.not_judged.empty()) return p;
  if (!row.not_timed.empty()) p.run.iteration_s.reset(), p.run.tflops.reset(), p.run.mfu.reset();
  try {
    auto sets = row.sets;
    sets.insert(sets.end(), options.sets.begin(), options.sets.end());
    const auto recipe = untold(row, run, sets);
    sets.insert(sets.end(), recipe.sets.begin(), recipe.sets.end());
    const auto scenario = scenario::load_text(row.yaml, fmt::format("{}:{}", run.file, run.line), sets);
    const auto prediction = answer::predict(scenario, {.without = options.without,
                                                       .summary = {.memory = options.memory, .critical_path = false},
                                                       .assumptions = false});
    const auto& summary = prediction.summary;
    p.iteration_s = to_seconds(summary.iteration), p.breakdown = summary.breakdown;
    p.kind = scenario::run_class(scenario, waiting(summary));
    p.family = family_of(p.run.table, p.kind.gpu, p.kind.framework);
    p.causes = causes_of(scenario, p.kind, row.fine_tuning);
    p.band = summary.error_band, p.recipes = recipe.steps;
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
    if (options.forecast) add_forecasts(p, row, constants, sets);
  } catch (const UserError& error) {
    if (auto unknown = scenario::unknown_keys(error.diagnostics(), options.sets); !unknown.empty())
      throw UserError(std::move(unknown));
    p.not_judged = error.diagnostics().front().message;
  }
  return p;
}

}  // namespace

std::vector<Prediction> predict(const std::vector<Run>& runs, const ValidationRun& options) {
  const auto mapping = read_mapping();
  const auto constants = options.forecast ? read_constants() : std::vector<Constant>();
  std::vector<Prediction> predictions(runs.size());
  in_parallel(runs.size(), options.jobs,
              [&](std::size_t i) { predictions[i] = predict_row(runs[i], mapping, constants, options); });
  return predictions;
}

}  // namespace rehearsal::published
