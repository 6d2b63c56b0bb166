// The page of `validate --against --html`: predicted against measured, the scores, every row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/program.hpp"
#include "published/report.hpp"

namespace rehearsal::published {

using namespace page;
namespace {

constexpr std::size_t kWorst = 20;

Scatter scatter(const Predictions& predictions) {
  Scatter scatter;
  scatter.x = {"measured iteration", Unit::seconds, true};
  scatter.y = {"predicted iteration", Unit::seconds, true};
  scatter.slopes = {1, 1.1, 1 / 1.1};
  for (const auto& s : score(predictions)) scatter.series.push_back(s.table);
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    const auto table = std::find(scatter.series.begin(), scatter.series.end(), p.run.table) - scatter.series.begin();
    scatter.points.push_back({*p.run.iteration_s, p.iteration_s, std::size_t(table),
                              fmt::format("{} {}: predicted {:.4g} s, measured {:.4g} s, {:+.1f} %", p.run.id,
                                          p.run.model, p.iteration_s, *p.run.iteration_s, p.error() * 100)});
  }
  return scatter;
}

// Breakdown of the predicted times with the largest errors, to show which part is missing or too large.
Bars worst(const Predictions& predictions) {
  std::vector<const Prediction*> worst;
  for (const auto& p : predictions)
    if (p.not_judged.empty() && p.timed()) worst.push_back(&p);
  std::stable_sort(worst.begin(), worst.end(),
                   [](auto* a, auto* b) { return std::abs(a->error()) > std::abs(b->error()); });
  worst.resize(std::min(worst.size(), kWorst));
  Bars bars;
  bars.unit = Unit::share, bars.colors = report::category_colors();
  for (std::size_t c = 0; c < graph::kCategories; ++c) bars.parts.push_back(name(static_cast<graph::Category>(c)));
  bars.limit = 1., bars.limit_name = "measured";
  for (const auto* p : worst) {
    Bars::Row row{p->run.id, {}, fmt::format("{:+.0f} % off", p->error() * 100)};
    for (const Time part : p->breakdown) row.values.push_back(to_seconds(part) / *p->run.iteration_s);
    bars.rows.push_back(std::move(row));
  }
  return bars;
}

}  // namespace

Page against_page(const Predictions& predictions) {
  const auto json = against_answer().json(predictions);
  const report::Showing shown(json, against_answer().items());
  Page page;
  page.title = "Predicted against measured";
  page.subtitle = fmt::format("{} published runs; tables of two rows or more: {}", shown.value("/overall/rows").text,
                              shown.value("/overall/tables").text);
  page.made_by = "rehearse " + program_version();
  const auto fact = [&](const char* key, const char* more) { return shown.fact(std::string("/overall/") + key, more); };
  page.sections.push_back(
      {"The answer",
       {{"", Facts{{fact("mean", "mean of the tables' means"),
                    fact("forecast", "without the constants that a family alone gave"),
                    fact("forecast_without_framework", "likewise"), fact("forecast_without_gpu", "likewise"),
                    fact("forecast_without_cause", "likewise"), fact("constant_rate", "of each table")}}},
        {"", scatter(predictions), "scatter",
         "A point is a run; on the line: as predicted; dashed: 10 % off. Errors are predicted / measured - 1."}}});
  page.sections.push_back(
      {"Tables",
       {{"", shown.table("/tables", {"table", "rows", "mean", "forecast", "median", "p90", "bias",
                                     "rank_correlation_time", "constant_rate", "memory/rows", "memory/mean",
                                     "memory/bias", "fits/ran_predicted_fit", "fits/ran_predicted_unfit",
                                     "fits/failed_predicted_unfit", "fits/failed_predicted_fit", "not_judged"})}}});
  Section forecasts{"Forecasts", {}};
  for (const auto& [left, title] : {std::pair("family", "Publisher, GPU and framework"),
                                    {"framework", "Frameworks"},
                                    {"gpu", "GPUs"},
                                    {"cause", "Causes"}}) {
    auto table =
        shown.table(std::string("/forecasts/") + left, {"rows", "mean", "forecast", "bias", "not_forecast"}, left);
    if (table.rows.empty()) continue;
    if (std::all_of(table.rows.begin(), table.rows.end(), [](const auto& row) { return row.back().text.empty(); })) {
      table.head.pop_back();
      for (auto& row : table.rows) row.pop_back();
    }
    forecasts.blocks.push_back({title, std::move(table)});
  }
  if (!forecasts.blocks.empty()) {
    forecasts.blocks.back().note = "Forecast: without the constants that these runs alone gave.";
    page.sections.push_back(std::move(forecasts));
  }
  page.sections.push_back(
      {"Furthest off", {{"Where the predicted time goes, as a share of the measured", worst(predictions), "worst"}}});
  page.sections.push_back(
      {"Every row",
       {{fmt::format("{} rows", predictions.size()),
         shown.table("/rows", {"id", "model", "gpus", "predicted_s", "measured_s", "error", "predicted_peak_bytes",
                               "measured_peak_bytes", "fits", "ran", "not_judged"}),
         "", "", true}}});
  return page;
}

}  // namespace rehearsal::published
