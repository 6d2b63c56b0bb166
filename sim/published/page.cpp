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

Value share(double part) { return {fmt::format("{:.1f} %", part * 100), part}; }
Value signed_share(double part) { return {fmt::format("{:+.1f} %", part * 100), part}; }
Value count(std::size_t n) { return {std::to_string(n), double(n)}; }
Value real(double value) { return {fmt::format("{:.4g}", value), value}; }

Scatter scatter(const std::vector<Prediction>& predictions, const std::vector<Score>& scores) {
  Scatter scatter;
  scatter.x = {"measured iteration", Unit::seconds, true};
  scatter.y = {"predicted iteration", Unit::seconds, true};
  scatter.slopes = {1, 1.1, 1 / 1.1};
  for (const auto& s : scores) scatter.series.push_back(s.table);
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    const auto table = std::find(scatter.series.begin(), scatter.series.end(), p.run.table) - scatter.series.begin();
    scatter.points.push_back({*p.run.iteration_s, p.iteration_s, std::size_t(table),
                              fmt::format("{} {}: predicted {:.4g} s, measured {:.4g} s, {:+.1f} %", p.run.id,
                                          p.run.model, p.iteration_s, *p.run.iteration_s, p.error() * 100)});
  }
  return scatter;
}

Table score_table(const std::vector<Score>& scores) {
  Table table;
  table.head = {"table",
                "rows",
                "mean",
                "forecast",
                "median",
                "p90",
                "bias",
                "rank of time",
                "constant rate",
                "memory rows",
                "memory mean",
                "memory bias",
                "ran: fits / not",
                "failed: not / fits"};
  for (const auto& s : scores) {
    if (!s.rows && !s.memory_rows && !(s.failed_fits + s.failed_unfit)) continue;
    table.rows.push_back({{s.table},
                          count(s.rows),
                          share(s.mean),
                          s.forecast(Left::family).rows ? share(s.forecast(Left::family).mean) : Value{"-"},
                          share(s.median),
                          share(s.p90),
                          signed_share(s.bias),
                          s.rows < 3 ? Value{"-"} : Value{fmt::format("{:.2f}", s.rank_time), s.rank_time},
                          share(s.constant),
                          count(s.memory_rows),
                          s.memory_rows ? share(s.memory_mean) : Value{"-"},
                          s.memory_rows ? signed_share(s.memory_bias) : Value{"-"},
                          {fmt::format("{} / {}", s.ran_fits, s.ran_unfit)},
                          {fmt::format("{} / {}", s.failed_unfit, s.failed_fits)}});
  }
  return table;
}

Block forecasts(const std::vector<Prediction>& predictions, Left left, const char* title) {
  Table table;
  table.head = {name(left), "rows", "mean", "forecast", "bias", "remark"};
  table.words = {true, false, false, false, false, true};
  for (const auto& g : score_groups(predictions, left)) {
    const bool forecast = g.not_forecast.empty();
    table.rows.push_back({{g.name},
                          count(g.rows),
                          share(g.mean),
                          forecast ? share(g.forecast) : Value{"-"},
                          forecast ? signed_share(g.bias) : Value{"-"},
                          {forecast ? "" : "no other route for " + g.not_forecast}});
  }
  return {title, std::move(table), "", "Forecast: without the constants that these runs alone gave."};
}

// Breakdown of the predicted times with the largest errors, to show which part is missing or too large.
Bars worst(const std::vector<Prediction>& predictions) {
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

Table row_table(const std::vector<Prediction>& predictions) {
  Table table;
  table.head = {"row",          "model", "GPUs", "predicted s", "measured s", "error", "memory, predicted GiB",
                "measured GiB", "remark"};
  table.words = {true, true, false, false, false, false, false, false, true};
  for (const auto& p : predictions) {
    const auto& r = p.run;
    const auto gib = [](double b) { return b > 0 ? Value{fmt::format("{:.1f}", b / double(1 << 30)), b} : Value{}; };
    const bool judged = p.not_judged.empty();
    std::string remark = judged ? "" : "not judged: " + p.not_judged;
    if (r.out_of_memory()) remark += "ran out of memory";
    if (judged && !p.fits) remark += r.out_of_memory() ? ", as predicted" : "predicted not to fit";
    table.rows.push_back({{r.id},
                          {r.model},
                          {std::to_string(r.gpus.value_or(0))},
                          judged ? real(p.iteration_s) : Value{},
                          r.iteration_s ? real(*r.iteration_s) : Value{},
                          p.timed() ? signed_share(p.error()) : Value{},
                          gib(judged && p.measured_peak > 0 ? p.peak : 0),
                          gib(p.measured_peak),
                          {remark}});
  }
  return table;
}

}  // namespace

Page against_page(const std::vector<Prediction>& predictions) {
  const auto scores = score(predictions);
  const auto o = overall(scores);
  Page page;
  page.title = "Predicted against measured";
  page.subtitle = fmt::format("{} published runs in {} tables of two rows or more", o.rows, o.tables);
  page.made_by = "rehearse " + program_version();
  page.sections.push_back(
      {"The answer",
       {{"", Facts{{{"mean error", share(o.mean), "mean of the tables' means"},
                    {"forecast", share(o.forecast(Left::family)), "without the constants that a family alone gave"},
                    {"without its framework", share(o.forecast(Left::framework)), "likewise"},
                    {"without its GPU", share(o.forecast(Left::gpu)), "likewise"},
                    {"without its cause", share(o.forecast(Left::cause)), "likewise"},
                    {"the best constant rate", share(o.constant), "of each table"}}}},
        {"", scatter(predictions, scores), "scatter",
         "A point is a run; on the line: as predicted; dashed: 10 % off. Errors are predicted / measured - 1."}}});
  page.sections.push_back({"Tables", {{"", score_table(scores)}}});
  page.sections.push_back({"Forecasts",
                           {forecasts(predictions, Left::family, "Publisher, GPU and framework"),
                            forecasts(predictions, Left::framework, "Frameworks"),
                            forecasts(predictions, Left::gpu, "GPUs"), forecasts(predictions, Left::cause, "Causes")}});
  page.sections.push_back(
      {"Furthest off", {{"Where the predicted time goes, as a share of the measured", worst(predictions), "worst"}}});
  page.sections.push_back(
      {"Every row", {{fmt::format("{} rows", predictions.size()), row_table(predictions), "", "", true}}});
  return page;
}

}  // namespace rehearsal::published
