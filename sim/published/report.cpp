#include "published/report.hpp"

#include "base/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/json.hpp"
#include "page/layout.hpp"

namespace rehearsal::published {
namespace {

double gib(double bytes) { return bytes / double(1 << 30); }

std::string percent(double share) { return fmt::format("{:.1f}", share * 100); }
std::string signed_percent(double share) { return fmt::format("{:+.1f}", share * 100); }

using Cells = std::vector<std::vector<std::string>>;
std::string table(const Cells& rows, const page::TextStyle& style, std::vector<bool> words = {true}) {
  return page::table(rows, page::Paint{style.color}, style.width, std::move(words));
}

std::string rows_text(const Predictions& predictions, const page::TextStyle& style) {
  Cells times{{"row", "model", "GPUs", "predicted s", "measured s", "error %"}};
  Cells memory{{"row", "predicted GiB", "measured GiB", "error %", "verdict"}};
  for (const auto& p : predictions) {
    const auto& r = p.run;
    if (p.not_judged.empty() && r.iteration_s)
      times.push_back({r.id, r.model.substr(0, 14), std::to_string(r.gpus.value_or(0)),
                       fmt::format("{:.3f}", p.iteration_s), fmt::format("{:.3f}", *r.iteration_s),
                       signed_percent(p.error())});
    std::string verdict = r.out_of_memory() ? "ran out of memory" : "";
    if (!p.not_judged.empty())
      verdict = "not judged: " + p.not_judged;
    else if (!p.fits)
      verdict += r.out_of_memory() ? ", as predicted" : "PREDICTED NOT TO FIT";
    const bool sized = p.not_judged.empty() && p.measured_peak > 0;
    if (sized || !verdict.empty())
      memory.push_back({r.id, sized ? fmt::format("{:.1f}", gib(p.peak)) : "",
                        sized ? fmt::format("{:.1f}", gib(p.measured_peak)) : "",
                        sized ? signed_percent(p.memory_error()) : "", verdict});
  }
  std::string text;
  if (times.size() > 1) text += table(times, style, {true, true}) + "\n";
  if (memory.size() > 1) text += table(memory, style, {true, false, false, false, true}) + "\n";
  return text;
}

std::string times_text(const std::vector<Score>& scores, const page::TextStyle& style) {
  Cells cells{{"table", "rows", "mean", "forecast", "median", "p90", "bias", "constant", "rank s", "FLOP/s"}};
  for (const auto& s : scores)
    if (s.rows) {
      const auto rank = [&](double value) { return s.rows < 3 ? std::string("-") : fmt::format("{:.2f}", value); };
      const auto& forecast = s.forecast(Left::family);
      cells.push_back({s.table, std::to_string(s.rows), percent(s.mean), forecast.rows ? percent(forecast.mean) : "-",
                       percent(s.median), percent(s.p90), signed_percent(s.bias), percent(s.constant),
                       rank(s.rank_time), rank(s.rank_rate)});
    }
  if (cells.size() == 1) return "";
  return "Time: error in %, that of the best constant rate, and rank correlations\n" + table(cells, style) + "\n";
}

// Tables that print memory, a failure, or rows that ran and were predicted not to fit; of the others all fit.
std::string memory_text(const std::vector<Score>& scores, const page::TextStyle& style) {
  Cells cells{{"table", "rows", "mean", "bias", "ran: fits", "not", "failed: not", "fits"}};
  for (const auto& s : scores)
    if (s.memory_rows + s.ran_unfit + s.failed_unfit + s.failed_fits)
      cells.push_back({s.table, s.memory_rows ? std::to_string(s.memory_rows) : "-",
                       s.memory_rows ? percent(s.memory_mean) : "-",
                       s.memory_rows ? signed_percent(s.memory_bias) : "-", std::to_string(s.ran_fits),
                       std::to_string(s.ran_unfit), std::to_string(s.failed_unfit), std::to_string(s.failed_fits)});
  if (cells.size() == 1) return "";
  return "Memory: error in %; predictions for rows that ran and for rows that failed\n" + table(cells, style) + "\n";
}

// What the four kinds of forecasts come to, in points of mean error over tables, and the groups that each leaves out.
std::string forecasts_text(const Predictions& predictions, const Overall& o, const page::TextStyle& style) {
  std::string text = "\nForecasts: mean error in % without constants that only the left-out runs gave\n";
  for (const auto left : kLeft) {
    const auto groups = score_groups(predictions, left);
    const auto worst = std::max_element(groups.begin(), groups.end(),
                                        [](const auto& a, const auto& b) { return a.forecast < b.forecast; });
    if (worst == groups.end()) continue;
    text += fmt::format("  {:<10} {:>5.1f} on average over tables; {} left out in turn, worst {:.1f} ({})\n",
                        name(left), o.forecast(left) * 100, groups.size(), worst->forecast * 100, worst->name);
  }
  if (const auto of = of_causes(predictions); of.tables > 0)
    text += fmt::format("  rows that have a cause: {:.1f} on average over {} tables, {:.1f} with all constants\n",
                        of.forecast * 100, of.tables, of.mean * 100);
  for (const auto left : kLeft) {
    const auto groups = score_groups(predictions, left);
    if (groups.empty()) continue;
    Cells cells{{fmt::format("left out: its {}", name(left)), "rows", "mean", "forecast", "bias", ""}};
    for (const auto& g : groups) {
      const bool known = g.not_forecast.empty();
      cells.push_back({g.name, std::to_string(g.rows), percent(g.mean), known ? percent(g.forecast) : "-",
                       known ? signed_percent(g.bias) : "-", known ? "" : "not forecast: " + g.not_forecast});
    }
    text += "\n" + table(cells, style, {true, false, false, false, false, true});
  }
  return text;
}

std::string coverage_text(const std::vector<Coverage>& all, const page::TextStyle& style) {
  if (all.empty() || all.front().tables < 2) return "";
  Cells cells{{"80 % bands, each made without the row's own family", "tables", "hold, %", "wide, %"}};
  for (const auto& c : all)
    cells.push_back({"  " + c.what, std::to_string(c.tables), fmt::format("{:.0f}", c.inside * 100),
                     fmt::format("{:.0f}", c.width * 100)});
  return "\n" + table(cells, style);
}

using report::Shown, report::Unit;

const auto itself = [](const auto& one) -> const auto& { return one; };
template <class T>
Shown<T> who(const char* what) {
  return Shown<T>(what).group(
      "rehearsal",
      Shown<T>("Who answers.").figure("version", Unit::none, "version", "", [](auto&) { return program_version(); }),
      itself);
}
std::string without(Left left) {
  return left == Left::family ? "forecast" : fmt::format("forecast_without_{}", name(left));
}

Shown<Overall> over_tables() {
  auto all = Shown<Overall>("Over tables of at least two rows.")
                 .figures(Unit::none, "tables", &Overall::tables, "rows", &Overall::rows)
                 .figure("mean", Unit::share, "mean error", "", &Overall::mean)
                 .figures(Unit::share, "median", &Overall::median)
                 .figure("constant_rate", Unit::share, "the best constant rate", "", &Overall::constant);
  for (const auto left : kLeft)
    all.figure(
        without(left), Unit::share,
        left == Left::family ? "forecast" : fmt::format("without its {}", left == Left::gpu ? "GPU" : name(left)),
        "without the constants that only these runs gave", [left](auto& o) { return o.forecast(left); });
  return all;
}

// Nothing is the mean of nothing.
template <class Get>
auto of_rows(std::size_t Score::*rows, Get get, std::size_t least = 1) {
  return [=](const Score& s) { return s.*rows < least ? std::nullopt : std::optional(std::invoke(get, s)); };
}
Shown<Score> of_table() {
  const auto timed = [](auto get, std::size_t least = 1) { return of_rows(&Score::rows, get, least); };
  const auto forecast = [](const Score& s) { return s.forecast(Left::family); };
  return Shown<Score>("Of each table; errors are predicted / measured - 1, rank correlations Spearman's.")
      .figures(Unit::none, "table", &Score::table, "rows", &Score::rows)
      .figures(Unit::share, "mean", timed(&Score::mean), "median", timed(&Score::median), "p90", timed(&Score::p90))
      .figures(Unit::error, "bias", timed(&Score::bias))
      .figures(Unit::none, "rank_correlation_time", timed(&Score::rank_time, 3), "rank_correlation_rate",
               timed(&Score::rank_rate, 3))
      .figure("forecast", Unit::share, "forecast", "mean without the constants that a row's family alone gave",
              [=](auto& s) { return forecast(s).rows ? Json(forecast(s).mean) : Json(); })
      .figures(Unit::none, "forecast_rows", [=](auto& s) { return forecast(s).rows; })
      .figures(Unit::share, "constant_rate", timed(&Score::constant))
      .group("memory",
             Shown<Score>("Of peak memory.")
                 .figure("rows", Unit::none, "memory rows", "", &Score::memory_rows)
                 .figure("mean", Unit::share, "memory mean", "", of_rows(&Score::memory_rows, &Score::memory_mean))
                 .figure("bias", Unit::error, "memory bias", "", of_rows(&Score::memory_rows, &Score::memory_bias)),
             itself)
      .group("fits",
             Shown<Score>("Whether rows fit, and were predicted to.")
                 .figures(Unit::none, "ran_predicted_fit", &Score::ran_fits, "ran_predicted_unfit", &Score::ran_unfit,
                          "failed_predicted_unfit", &Score::failed_unfit, "failed_predicted_fit", &Score::failed_fits),
             itself)
      .figures(Unit::none, "not_judged", &Score::not_judged);
}

Shown<Prediction> of_row() {
  const auto judged = [](auto get) {
    return
        [get](const Prediction& p) { return p.not_judged.empty() ? std::optional(std::invoke(get, p)) : std::nullopt; };
  };
  const auto if_any = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const auto peak = [](double bytes) { return bytes > 0 ? report::number(bytes) : Json(); };
  auto row = Shown<Prediction>()
                 .also(Shown<Run>().figures(Unit::none, "model", &Run::model, "gpus", &Run::gpus), &Prediction::run)
                 .figures(Unit::none, "not_judged", [=](auto& p) { return if_any(p.not_judged); })
                 .figures(Unit::seconds, "predicted_s", judged(&Prediction::iteration_s))
                 .figures(Unit::none, "family", [=](auto& p) { return if_any(p.family); });
  for (const auto left : kLeft)
    row.figures(Unit::seconds, without(left) + "_s", judged([left](auto& p) {
                  return p.forecast(left).missing.empty() ? Json(p.forecast(left).seconds) : Json();
                }));
  row.group("error_band",
            Shown<Prediction>("Where 80 % of the runs that are like this one were measured.")
                .figures(Unit::seconds, "low_s", [](auto& p) { return p.iteration_s * *p.band.low; })
                .figures(Unit::seconds, "high_s", [](auto& p) { return p.iteration_s * *p.band.high; })
                .figures(Unit::none, "comparable", [](auto& p) { return p.band.comparable; }),
            [](auto& p) { return p.not_judged.empty() && p.band.low ? &p : nullptr; })
      .also(Shown<Run>().figures(Unit::seconds, "measured_s", &Run::iteration_s), &Prediction::run)
      .figures(Unit::error, "error", [](auto& p) { return p.timed() ? Json(p.error()) : Json(); })
      .figures(Unit::bytes, "predicted_peak_bytes", judged(&Prediction::peak), "measured_peak_bytes",
               [=](auto& p) { return peak(p.measured_peak); })
      .figures(Unit::error, "memory_error",
               [](auto& p) { return p.measured_peak > 0 ? Json(p.memory_error()) : Json(); })
      .figures(Unit::none, "fits", judged(&Prediction::fits), "ran", [](auto& p) { return !p.run.out_of_memory(); })
      .or_all_left_out();
  return Shown<Prediction>("A published run.")
      .also(Shown<Run>().figures(Unit::none, "id", &Run::id, "table", &Run::table), &Prediction::run)
      .also(row);
}

Shown<Predictions> of_groups() {
  const auto forecast = [](auto member) {
    return [member](const GroupScore& g) { return g.not_forecast.empty() ? std::optional(g.*member) : std::nullopt; };
  };
  const auto group = Shown<GroupScore>()
                         .figures(Unit::none, "rows", &GroupScore::rows)
                         .figures(Unit::share, "mean", &GroupScore::mean, "forecast", forecast(&GroupScore::forecast))
                         .figures(Unit::error, "bias", forecast(&GroupScore::bias))
                         .figure("not_forecast", Unit::none, "no other route for", "constants without substitute",
                                 [](auto& g) { return g.not_forecast.empty() ? Json() : Json(g.not_forecast); })
                         .or_left_out();
  Shown<Predictions> all("Groups of runs that a forecast leaves out in turn.");
  for (const auto left : kLeft)
    all.named_rows(name(left), group, [left](auto& predictions) {
      std::vector<std::pair<std::string, GroupScore>> groups;
      for (const auto& g : score_groups(predictions, left)) groups.emplace_back(g.name, g);
      return groups;
    });
  return all;
}

// The means of tables, for the error budget.
Shown<std::vector<Score>> means() {
  return Shown<std::vector<Score>>()
      .group("overall", over_tables(), [](auto& scores) { return std::optional(overall(scores)); })
      .named("tables", Unit::share, "mean", "of the errors of each table", [](auto& scores) {
        std::vector<std::pair<std::string, double>> all;
        for (const auto& s : scores)
          if (s.rows) all.emplace_back(s.table, s.mean);
        return all;
      });
}

std::string csv_of(const Predictions& predictions, std::string_view columns) {
  const auto row = of_row();
  std::vector<Json> rows;
  for (const auto& p : predictions) rows.push_back(row.json(p));
  return report::csv(report::csv_columns(columns), rows, 6);
}

}  // namespace

std::string against_text(const Predictions& predictions, bool rows, const page::TextStyle& style,
                         const std::vector<Coverage>& coverage) {
  const auto scores = score(predictions);
  auto text = rows ? rows_text(predictions, style) : std::string();
  text += times_text(scores, style) + memory_text(scores, style);
  const auto o = overall(scores);
  if (o.tables)
    text += fmt::format(
        "mean of {} tables of at least two rows ({} rows): {:.1f} %, forecast {:.1f} %; best constant rate of each: "
        "{:.1f} %\n",
        o.tables, o.rows, o.mean * 100, o.forecast(Left::family) * 100, o.constant * 100);
  if (o.memory_tables)
    text += fmt::format(
        "memory: mean of {} tables ({} rows): {:.1f} %; the verdict is right for {:.1f} % of {} rows, and for {:.0f} "
        "% of the {} "
        "within 5 % of their GPU's memory\n",
        o.memory_tables, o.memory_rows, o.memory * 100, o.fits_right * 100, o.fits_rows, o.narrow_right * 100,
        o.narrow_rows);
  text += forecasts_text(predictions, o, style) + coverage_text(coverage, style);
  std::map<std::string, std::size_t> reasons;
  for (const auto& p : predictions)
    if (!p.not_judged.empty()) reasons[p.not_judged]++;
  for (const auto& [reason, count] : reasons)
    text += fmt::format("not judged: {} row{}, {}\n", count, count == 1 ? "" : "s", reason);
  return page::fit(text, style.width);
}

const Shown<Predictions>& against_answer() {
  static const auto kAnswer =
      who<Predictions>("Published runs, each predicted from its own scenario.")
          .group("overall", over_tables(), [](auto& all) { return std::optional(overall(score(all))); })
          .group("forecasts", of_groups(), itself)
          .rows("tables", of_table(), [](auto& all) { return score(all); })
          .rows("rows", of_row(), itself);
  return kAnswer;
}

const Shown<Budget>& budget_answer() {
  static const auto kAnswer =
      who<Budget>("The mean error with each effect of the cost model left out.")
          .group("whole", means(), &Budget::whole)
          .named_rows("without",
                      Shown<Removal>()
                          .figure("what", Unit::none, "effect", "", [](auto& r) { return r.effect->what; })
                          .also(means(), &Removal::scores),
                      [](auto& b) {
                        std::vector<std::pair<std::string_view, const Removal&>> all;
                        for (const auto& removal : b.removals) all.emplace_back(removal.effect->name, removal);
                        return all;
                      });
  return kAnswer;
}

std::vector<report::AnswerOf> answers() {
  return {{"validate --against", against_answer()}, {"validate --against --budget", budget_answer()}};
}

std::string forecast_csv(const Predictions& predictions) {
  return csv_of(predictions, "id table family forecast_s predicted_peak_bytes fits not_judged");
}

std::string against_csv(const Predictions& predictions) {
  return csv_of(predictions,
                "id table family predicted_s forecast_s measured_s error band_low_s=/error_band/low_s "
                "band_high_s=/error_band/high_s predicted_peak_bytes measured_peak_bytes memory_error fits ran "
                "not_judged");
}

std::string budget_text(const Budget& budget, const page::TextStyle& style) {
  const auto& [whole, removals] = budget;
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < whole.size(); i++)
    if (whole[i].rows >= 2) columns.push_back(i);
  // Table names are too long for column headings, so columns are numbered and a legend names them.
  std::string text = "Mean error in %, then its change in points with one effect left out; . = under 0.05\n\n";
  for (std::size_t c = 0; c < columns.size(); c++) text += fmt::format("  {:>2} {}\n", c + 1, whole[columns[c]].table);
  const auto base = overall(whole);
  Cells cells{{"", "all"}, {"whole model", percent(base.mean)}};
  for (std::size_t c = 0; c < columns.size(); c++) {
    cells[0].push_back(std::to_string(c + 1));
    cells[1].push_back(percent(whole[columns[c]].mean));
  }
  const auto change = [](double share) { return std::abs(share) < 5e-4 ? std::string(".") : signed_percent(share); };
  std::string unknown;
  for (const auto& [effect, scores] : removals) {
    auto& row = cells.emplace_back(
        std::vector{"without " + std::string(effect->name), change(overall(scores).mean - base.mean)});
    double most = 0;
    for (const auto c : columns) {
      row.push_back(change(scores[c].mean - whole[c].mean));
      most = std::max(most, std::abs(scores[c].mean - whole[c].mean));
    }
    if (most < 5e-4) unknown += fmt::format("no table depends on '{}' ({})\n", effect->name, effect->what);
  }
  return page::fit(text + "\n" + table(cells, style) + "\n" + unknown, style.width);
}

std::string budget_csv(const Budget& budget) {
  const auto& [whole, removals] = budget;
  std::string text = "without,table,rows,mean,change\n";
  for (const auto& s : whole)
    if (s.rows) text += fmt::format(",{},{},{:.6g},0\n", s.table, s.rows, s.mean);
  for (const auto& [effect, scores] : removals)
    for (std::size_t i = 0; i < scores.size(); i++)
      if (scores[i].rows)
        text += fmt::format("{},{},{},{:.6g},{:.6g}\n", effect->name, scores[i].table, scores[i].rows, scores[i].mean,
                            scores[i].mean - whole[i].mean);
  return text;
}

}  // namespace rehearsal::published
