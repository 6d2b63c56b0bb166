#include "published/report.hpp"

#include "base/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/json.hpp"

namespace rehearsal::published {
namespace {

double gib(double bytes) { return bytes / double(1 << 30); }

std::string row_text(const Prediction& p) {
  const auto& r = p.run;
  std::string text = fmt::format("{:<22} {:<14} {:>5} GPUs", r.id, r.model.substr(0, 14), r.gpus.value_or(0));
  if (!p.not_judged.empty()) return text + "  not judged: " + p.not_judged + "\n";
  if (r.iteration_s)
    text += fmt::format(" {:>10.3f} s {:>10.3f} s {:>+7.1f} %", p.iteration_s, *r.iteration_s, p.error() * 100);
  if (p.measured_peak > 0)
    text += fmt::format("  {:>6.1f} GiB {:>6.1f} GiB {:>+6.1f} %", gib(p.peak), gib(p.measured_peak),
                        p.memory_error() * 100);
  if (r.out_of_memory()) text += "  ran out of memory";
  if (!p.fits) text += r.out_of_memory() ? ", as predicted" : "  PREDICTED NOT TO FIT";
  return text + "\n";
}

std::string score_line(const Score& s) {
  const auto rank = [&](double value) { return s.rows < 3 ? std::string("-") : fmt::format("{:.2f}", value); };
  std::string text = fmt::format(
      "{:<22} {:>5} {:>6.1f} {:>6} {:>6.1f} {:>6.1f} {:>+6.1f} {:>5} {:>5} {:>7.1f}", s.table, s.rows, s.mean * 100,
      s.forecast(Left::family).rows ? fmt::format("{:.1f}", s.forecast(Left::family).mean * 100) : "-", s.median * 100,
      s.p90 * 100, s.bias * 100, rank(s.rank_time), rank(s.rank_rate), s.constant * 100);
  if (s.memory_rows)
    text += fmt::format("   {:>3} {:>5.1f} {:>+6.1f}", s.memory_rows, s.memory_mean * 100, s.memory_bias * 100);
  else
    text += "     -     -      -";
  text += fmt::format("   {:>4} {:>4} {:>4} {:>4}", s.ran_fits, s.ran_unfit, s.failed_unfit, s.failed_fits);
  return text + "\n";
}

constexpr const char* kHead =
    "                                time, error in %                                   constant  memory, %        ran "
    "     "
    "failed\n"
    "table                   rows   mean  fore- median    p90   bias  rank of     rate  rows  mean   bias    fits  not "
    " not "
    "fits\n"
    "                                     cast                           s  FLOP/s\n";

// What the four kinds of forecasts come to, in points of mean error over tables, and the groups that each leaves out.
std::string forecasts_text(const std::vector<Prediction>& predictions, const Overall& o) {
  std::string text =
      "\nForecasts: predicted without the constants that only what is left out gave; mean |error| in %\n";
  for (const auto left : kLeft) {
    const auto groups = score_groups(predictions, left);
    const auto worst = std::max_element(groups.begin(), groups.end(),
                                        [](const auto& a, const auto& b) { return a.forecast < b.forecast; });
    if (worst == groups.end()) continue;
    text += fmt::format("  {:<10} {:>5.1f} in the mean of tables; {} left out in turn, the worst {:.1f} ({})\n",
                        name(left), o.forecast(left) * 100, groups.size(), worst->forecast * 100, worst->name);
  }
  if (const auto of = of_causes(predictions); of.tables > 0)
    text += fmt::format("  of rows that have a cause {:.1f} in the mean of {} tables, {:.1f} with all constants\n",
                        of.forecast * 100, of.tables, of.mean * 100);
  for (const auto left : kLeft) {
    text += fmt::format("\n{:<46} {:>5} {:>6} {:>9} {:>6}\n", fmt::format("left out: its {}", name(left)), "rows",
                        "mean", "forecast", "bias");
    for (const auto& g : score_groups(predictions, left))
      text += g.not_forecast.empty() ? fmt::format("{:<46} {:>5} {:>6.1f} {:>9.1f} {:>+6.1f}\n", g.name, g.rows,
                                                   g.mean * 100, g.forecast * 100, g.bias * 100)
                                     : fmt::format("{:<46} {:>5} {:>6.1f}  not forecast: {}\n", g.name, g.rows,
                                                   g.mean * 100, g.not_forecast);
  }
  return text;
}

std::string coverage_text(const std::vector<Coverage>& all) {
  if (all.empty() || all.front().tables < 2) return "";
  std::string text = "\nBands of 80 %, made without a row's own family                tables  hold, %  wide, %\n";
  for (const auto& c : all)
    text += fmt::format("  {:<58} {:>6} {:>8.0f} {:>8.0f}\n", c.what, c.tables, c.inside * 100, c.width * 100);
  return text;
}

Json forecasts_json(const std::vector<Prediction>& predictions) {
  Json json = Json::object();
  for (const auto left : kLeft) {
    Json groups = Json::object();
    for (const auto& g : score_groups(predictions, left))
      groups[g.name] = {{"rows", g.rows},
                        {"mean", g.mean},
                        {"forecast", g.not_forecast.empty() ? Json(g.forecast) : Json(nullptr)},
                        {"bias", g.bias}};
    json[name(left)] = std::move(groups);
  }
  return json;
}

Json score_json(const Score& s) {
  return {{"table", s.table},
          {"rows", s.rows},
          {"mean", s.mean},
          {"median", s.median},
          {"p90", s.p90},
          {"bias", s.bias},
          {"rank_correlation_time", s.rank_time},
          {"rank_correlation_rate", s.rank_rate},
          {"forecast", s.forecast(Left::family).mean},
          {"forecast_rows", s.forecast(Left::family).rows},
          {"constant_rate", s.constant},
          {"memory", {{"rows", s.memory_rows}, {"mean", s.memory_mean}, {"bias", s.memory_bias}}},
          {"fits",
           {{"ran_predicted_fit", s.ran_fits},
            {"ran_predicted_unfit", s.ran_unfit},
            {"failed_predicted_unfit", s.failed_unfit},
            {"failed_predicted_fit", s.failed_fits}}},
          {"not_judged", s.not_judged}};
}

Json overall_json(const Overall& o) {
  return {{"tables", o.tables},
          {"rows", o.rows},
          {"mean", o.mean},
          {"median", o.median},
          {"constant_rate", o.constant},
          {"forecast", o.forecast(Left::family)}};
}

}  // namespace

std::string against_text(const std::vector<Prediction>& predictions, bool rows, const std::vector<Coverage>& coverage) {
  std::string text;
  if (rows) {
    for (const auto& p : predictions) text += row_text(p);
    text += "\n";
  }
  text += kHead;
  const auto scores = score(predictions);
  for (const auto& s : scores)
    if (s.rows || s.memory_rows || s.failed_fits + s.failed_unfit) text += score_line(s);
  const auto o = overall(scores);
  if (o.tables)
    text += fmt::format(
        "\nmean of {} tables of at least two rows ({} rows): {:.1f} %, forecast {:.1f} %; best constant rate of each: "
        "{:.1f} %\n",
        o.tables, o.rows, o.mean * 100, o.forecast(Left::family) * 100, o.constant * 100);
  if (o.memory_tables)
    text += fmt::format(
        "memory: mean of {} tables ({} rows): {:.1f} %; fits or not as it was in {:.1f} % of {} rows, in {:.0f} % of "
        "the {} "
        "that are within 5 % of their GPU's memory\n",
        o.memory_tables, o.memory_rows, o.memory * 100, o.fits_right * 100, o.fits_rows, o.narrow_right * 100,
        o.narrow_rows);
  text += forecasts_text(predictions, o) + coverage_text(coverage);
  std::map<std::string, std::size_t> reasons;
  for (const auto& p : predictions)
    if (!p.not_judged.empty()) reasons[p.not_judged]++;
  for (const auto& [reason, count] : reasons) text += fmt::format("not judged: {} rows, {}\n", count, reason);
  return text;
}

std::string against_json(const std::vector<Prediction>& predictions) {
  Json json{{"rehearsal", {{"version", program_version()}}}};
  const auto scores = score(predictions);
  json["overall"] = overall_json(overall(scores));
  json["forecasts"] = forecasts_json(predictions);
  for (const auto& s : scores) json["tables"].push_back(score_json(s));
  for (const auto& p : predictions) {
    Json row{{"id", p.run.id}, {"table", p.run.table}};
    if (!p.not_judged.empty()) {
      row["not_judged"] = p.not_judged;
    } else {
      row["predicted_s"] = p.iteration_s;
      row["family"] = p.family;
      for (const auto left : kLeft)
        if (const auto& forecast = p.forecast(left); forecast.missing.empty())
          row[left == Left::family ? "forecast_s" : fmt::format("forecast_without_{}_s", name(left))] =
              forecast.seconds;
      if (p.band.low)
        row["error_band"] = {{"low_s", p.iteration_s * *p.band.low},
                             {"high_s", p.iteration_s * *p.band.high},
                             {"comparable", p.band.comparable}};
      if (p.run.iteration_s) row["measured_s"] = *p.run.iteration_s, row["error"] = p.error();
      row["predicted_peak_bytes"] = p.peak;
      if (p.measured_peak > 0) row["measured_peak_bytes"] = p.measured_peak, row["memory_error"] = p.memory_error();
      row["fits"] = p.fits, row["ran"] = !p.run.out_of_memory();
    }
    json["rows"].push_back(std::move(row));
  }
  return json.dump(2) + "\n";
}

std::string forecast_csv(const std::vector<Prediction>& predictions) {
  std::string text = "id,table,family,forecast_s,predicted_peak_bytes,fits,not_judged\n";
  for (const auto& p : predictions) {
    const bool judged = p.not_judged.empty();
    std::string reason = p.not_judged;
    std::replace(reason.begin(), reason.end(), '"', '\'');
    text += fmt::format(
        "{},{},{},{},{},{},{}\n", p.run.id, p.run.table, p.family,
        judged && p.forecast(Left::family).missing.empty() ? fmt::format("{:.6g}", p.forecast(Left::family).seconds)
                                                           : "",
        judged ? fmt::format("{:.6g}", p.peak) : "", judged && p.fits, judged ? "" : '"' + reason + '"');
  }
  return text;
}

std::string against_csv(const std::vector<Prediction>& predictions) {
  std::string text =
      "id,table,family,predicted_s,forecast_s,measured_s,error,band_low_s,band_high_s,predicted_peak_bytes,"
      "measured_peak_bytes,memory_error,fits,ran,not_judged\n";
  for (const auto& p : predictions) {
    const auto& r = p.run;
    const bool judged = p.not_judged.empty();
    const auto number = [](bool there, double value) { return there ? fmt::format("{:.6g}", value) : std::string(); };
    std::string reason = p.not_judged;
    std::replace(reason.begin(), reason.end(), '"', '\'');
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", r.id, r.table, p.family, number(judged, p.iteration_s),
        number(judged && p.forecast(Left::family).missing.empty(), p.forecast(Left::family).seconds),
        number(r.iteration_s.has_value(), r.iteration_s.value_or(0)), number(p.timed(), p.timed() ? p.error() : 0),
        number(judged && p.band.low, p.iteration_s * p.band.low.value_or(0)),
        number(judged && p.band.high, p.iteration_s * p.band.high.value_or(0)), number(judged, p.peak),
        number(p.measured_peak > 0, p.measured_peak),
        number(p.measured_peak > 0, p.measured_peak > 0 ? p.memory_error() : 0), judged && p.fits, !r.out_of_memory(),
        judged ? "" : '"' + reason + '"');
  }
  return text;
}

std::string budget_text(const std::vector<Score>& whole, const std::vector<Removal>& removals) {
  std::string text = "Mean error in %, then its change in points with one effect left out; . = under 0.05\n\n";
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < whole.size(); i++)
    if (whole[i].rows >= 2) columns.push_back(i);
  // Table names are too long for column headings, so columns are numbered and a legend names them.
  for (std::size_t c = 0; c < columns.size(); c++) text += fmt::format("  {:>2} {}\n", c + 1, whole[columns[c]].table);
  text += fmt::format("\n{:<21} {:>6}", "", "all");
  for (std::size_t c = 0; c < columns.size(); c++) text += fmt::format(" {:>5}", c + 1);
  const auto base = overall(whole);
  text += fmt::format("\n{:<21} {:>6.1f}", "whole model", base.mean * 100);
  for (const auto c : columns) text += fmt::format(" {:>5.1f}", whole[c].mean * 100);
  text += "\n";
  const auto change = [](double points, int width) {
    return std::abs(points) < .05 ? fmt::format(" {:>{}}", ".", width) : fmt::format(" {:>+{}.1f}", points, width);
  };
  for (const auto& [effect, scores] : removals) {
    text += fmt::format("{:<21}{}", "without " + std::string(effect->name),
                        change((overall(scores).mean - base.mean) * 100, 6));
    for (const auto c : columns) text += change((scores[c].mean - whole[c].mean) * 100, 5);
    text += "\n";
  }
  text += "\n";
  for (const auto& [effect, scores] : removals) {
    double most = 0;
    for (const auto c : columns) most = std::max(most, std::abs(scores[c].mean - whole[c].mean));
    if (most < 5e-4) text += fmt::format("no table knows of '{}' ({})\n", effect->name, effect->what);
  }
  return text;
}

std::string budget_json(const std::vector<Score>& whole, const std::vector<Removal>& removals) {
  Json json{{"rehearsal", {{"version", program_version()}}}};
  const auto tables = [](const std::vector<Score>& scores) {
    Json all = Json::object();
    for (const auto& s : scores)
      if (s.rows) all[s.table] = s.mean;
    return all;
  };
  json["whole"] = {{"overall", overall_json(overall(whole))}, {"tables", tables(whole)}};
  for (const auto& [effect, scores] : removals)
    json["without"][std::string(effect->name)] = {
        {"what", effect->what}, {"overall", overall_json(overall(scores))}, {"tables", tables(scores)}};
  return json.dump(2) + "\n";
}

std::string budget_csv(const std::vector<Score>& whole, const std::vector<Removal>& removals) {
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
