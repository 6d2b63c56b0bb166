// The page of `validate --against --html`: predicted against measured, drawn as SVG inside the page; no scripts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "published/report.hpp"
#include "report/markup.hpp"

namespace rehearsal::published {
namespace {

constexpr double kWidth = 720, kHeight = 560, kLeft = 60, kBottom = 44, kTop = 12, kRight = 28;

using report::escaped;

// Hues a golden angle apart: neighbours in the list differ, whatever their number.
std::string color(std::size_t table) {
  return fmt::format("hsl({:.0f} 62% 42%)", std::fmod(double(table) * 137.508, 360));
}

std::size_t table_index(const std::vector<Score>& scores, const std::string& table) {
  return static_cast<std::size_t>(
      std::find_if(scores.begin(), scores.end(), [&](const Score& s) { return s.table == table; }) - scores.begin());
}

// Whole decades around all times, the same on both axes, so that the diagonal is "as predicted".
struct LogAxis {
  double low = 0, high = 1;  // powers of ten
  double x(double seconds) const { return kLeft + share(seconds) * (kWidth - kLeft - kRight); }
  double y(double seconds) const { return kHeight - kBottom - share(seconds) * (kHeight - kBottom - kTop); }
  double share(double seconds) const { return (std::log10(seconds) - low) / (high - low); }
};
LogAxis axis_of(const std::vector<Prediction>& predictions) {
  double least = 1e300, most = 0;
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    least = std::min({least, p.iteration_s, *p.run.iteration_s});
    most = std::max({most, p.iteration_s, *p.run.iteration_s});
  }
  if (most <= 0) return {};
  LogAxis axis{std::floor(std::log10(least)), std::ceil(std::log10(most))};
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  return axis;
}

std::string line(const LogAxis& axis, double factor, const char* style) {
  const double low = std::pow(10, axis.low), high = std::pow(10, axis.high);
  const double from = factor < 1 ? low / factor : low, to = factor > 1 ? high / factor : high;
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", axis.x(from),
                     axis.y(from * factor), axis.x(to), axis.y(to * factor), style);
}

std::string scatter(const std::vector<Prediction>& predictions, const std::vector<Score>& scores) {
  const auto axis = axis_of(predictions);
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"predicted against measured\">\n",
                  kWidth, kHeight, kWidth);
  for (double d = axis.low; d <= axis.high + .5; d++) {
    const double at = std::pow(10, d);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4:g} s</text>\n",
        axis.x(at), kTop, kHeight - kBottom, kHeight - kBottom + 16, at);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:g} s</text>\n",
        kLeft, axis.y(at), kWidth - kRight, kLeft - 6, axis.y(at) + 4, at);
  }
  svg += line(axis, 1, "stroke=\"#333\"");
  for (const double factor : {1.1, 1 / 1.1}) svg += line(axis, factor, "stroke=\"#999\" stroke-dasharray=\"4 4\"");
  for (const auto& p : predictions) {
    if (!p.timed()) continue;
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\".65\"><title>{} {}: predicted {:.4g} "
        "s, "
        "measured {:.4g} s, {:+.1f} %</title></circle>\n",
        axis.x(*p.run.iteration_s), axis.y(p.iteration_s), color(table_index(scores, p.run.table)), escaped(p.run.id),
        escaped(p.run.model), p.iteration_s, *p.run.iteration_s, p.error() * 100);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured iteration</text>\n", (kLeft + kWidth) / 2,
                     kHeight - 8);
  svg += fmt::format(
      "<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">predicted iteration</text>\n",
      (kHeight - kBottom) / 2);
  return svg + "</svg>\n";
}

// Signed errors of one table on a line from -40 % to +40 %.
std::string strip(const std::vector<Prediction>& predictions, const std::string& table, const std::string& fill) {
  constexpr double width = 240, height = 18, most = .4;
  std::string svg = fmt::format(
      "<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\"><line class=\"grid\" x1=\"0\" y1=\"9\" x2=\"{0}\" "
      "y2=\"9\"/><line stroke=\"#333\" x1=\"{2}\" y1=\"1\" x2=\"{2}\" y2=\"17\"/>",
      width, height, width / 2);
  for (const auto& p : predictions)
    if (p.timed() && p.run.table == table)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"9\" r=\"3\" fill=\"{}\" fill-opacity=\".5\"/>",
                         width / 2 * (1 + std::clamp(p.error(), -most, most) / most), fill);
  return svg + "</svg>";
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }
std::string percent(double value) { return cell(fmt::format("{:.1f}", value * 100)); }
std::string signed_percent(double value) { return cell(fmt::format("{:+.1f}", value * 100)); }

std::string score_table(const std::vector<Prediction>& predictions, const std::vector<Score>& scores) {
  std::string html =
      "<table><thead><tr><th>table<th>rows<th>mean<th>forecast<th>median<th>p90<th>bias<th>rank of time<th>constant "
      "rate"
      "<th>errors, -40 to +40 %<th>memory rows<th>mean<th>bias<th>ran: fits / not<th>failed: not / fits</tr></thead>"
      "<tbody>\n";
  for (std::size_t i = 0; i < scores.size(); i++) {
    const auto& s = scores[i];
    if (!s.rows && !s.memory_rows && !(s.failed_fits + s.failed_unfit)) continue;
    html += "<tr>" + cell(fmt::format("<span style=\"color:{}\">&#9679;</span> {}", color(i), escaped(s.table))) +
            cell(std::to_string(s.rows)) + percent(s.mean) + (s.forecast_rows ? percent(s.forecast) : cell("-")) +
            percent(s.median) + percent(s.p90) + signed_percent(s.bias) +
            cell(s.rows < 3 ? "-" : fmt::format("{:.2f}", s.rank_time)) + percent(s.constant) +
            cell(strip(predictions, s.table, color(i))) + cell(std::to_string(s.memory_rows)) +
            (s.memory_rows ? percent(s.memory_mean) + signed_percent(s.memory_bias) : cell("-") + cell("-")) +
            cell(fmt::format("{} / {}", s.ran_fits, s.ran_unfit)) +
            cell(fmt::format("{} / {}", s.failed_unfit, s.failed_fits)) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string family_table(const std::vector<Prediction>& predictions) {
  std::string html =
      "<h2>Families of runs</h2>\n<p>Publisher, GPU and software. Forecast: without the constants that the family "
      "alone "
      "gave.</p>\n<table><thead><tr><th>family<th>rows<th>mean<th>forecast<th>bias<th>remark</tr></thead><tbody>\n";
  for (const auto& f : score_families(predictions))
    html += "<tr>" + cell(escaped(f.family)) + cell(std::to_string(f.rows)) + percent(f.mean) +
            (f.not_forecast.empty() ? percent(f.forecast) + signed_percent(f.bias) + cell("")
                                    : cell("-") + cell("-") + cell("no other route for " + escaped(f.not_forecast))) +
            "</tr>\n";
  return html + "</tbody></table>\n";
}

// Where the predicted time goes where it is furthest off: what is missing or too much stands there.
std::string worst_table(const std::vector<Prediction>& predictions) {
  constexpr std::size_t kWorst = 20;
  std::vector<const Prediction*> worst;
  for (const auto& p : predictions)
    if (p.not_judged.empty() && p.timed()) worst.push_back(&p);
  std::stable_sort(worst.begin(), worst.end(),
                   [](auto* a, auto* b) { return std::abs(a->error()) > std::abs(b->error()); });
  worst.resize(std::min(worst.size(), kWorst));
  std::string html =
      "<h2>Furthest off</h2>\n<table><thead><tr><th>row<th>family<th>error %<th>predicted s<th>measured s<th>where the "
      "predicted time goes</tr></thead><tbody>\n";
  for (const auto* p : worst) {
    std::string parts;
    for (std::size_t c = 0; c < p->breakdown.size(); c++)
      if (const double share = to_seconds(p->breakdown[c]) / p->iteration_s; share >= .005)
        parts +=
            fmt::format("{}{} {:.0f} %", parts.empty() ? "" : ", ", name(static_cast<graph::Category>(c)), share * 100);
    html += "<tr>" + cell(escaped(p->run.id)) + cell(escaped(p->family)) + signed_percent(p->error()) +
            cell(fmt::format("{:.4g}", p->iteration_s)) + cell(fmt::format("{:.4g}", *p->run.iteration_s)) +
            cell(parts) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string row_table(const std::vector<Prediction>& predictions) {
  std::string html =
      "<table><thead><tr><th>row<th>model<th>GPUs<th>predicted s<th>measured s<th>error %<th>memory, predicted GiB"
      "<th>measured GiB<th>remark</tr></thead><tbody>\n";
  for (const auto& p : predictions) {
    const auto& r = p.run;
    const auto gib = [](double b) { return cell(b > 0 ? fmt::format("{:.1f}", b / double(1 << 30)) : ""); };
    const bool judged = p.not_judged.empty();
    std::string remark = judged ? "" : "not judged: " + p.not_judged;
    if (r.out_of_memory()) remark += "ran out of memory";
    if (judged && !p.fits) remark += r.out_of_memory() ? ", as predicted" : "predicted not to fit";
    html += "<tr>" + cell(escaped(r.id)) + cell(escaped(r.model)) + cell(std::to_string(r.gpus.value_or(0))) +
            cell(judged ? fmt::format("{:.4g}", p.iteration_s) : "") +
            cell(r.iteration_s ? fmt::format("{:.4g}", *r.iteration_s) : "") +
            (p.timed() ? signed_percent(p.error()) : cell("")) + gib(judged && p.measured_peak > 0 ? p.peak : 0) +
            gib(p.measured_peak) + cell(escaped(remark)) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace

std::string against_html(const std::vector<Prediction>& predictions, const std::string& version) {
  const auto scores = score(predictions);
  const auto o = overall(scores);
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Rehearsal against published "
      "runs</title>\n"
      "<style>body{font:14px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#222}"
      "table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}"
      "th,td{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #ddd}th{vertical-align:bottom}"
      "td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}"
      "svg text{font-size:11px;fill:#555}.grid{stroke:#ddd}</style></head><body>\n";
  html += "<h1>Predicted against measured</h1>\n";
  html += fmt::format(
      "<p>{} published runs in {} tables of two rows or more. Mean of the tables' mean errors: <b>{:.1f} %</b>, "
      "forecast <b>{:.1f} %</b>; the best constant rate of each table: {:.1f} %. Errors are predicted / measured - 1; "
      "the dashed lines are 10 % off. "
      "rehearse {}.</p>\n",
      o.rows, o.tables, o.mean * 100, o.forecast * 100, o.constant * 100, escaped(version));
  html += scatter(predictions, scores) + score_table(predictions, scores) + family_table(predictions) +
          worst_table(predictions) + "<details><summary>Every row</summary>\n" + row_table(predictions) +
          "</details>\n</body></html>\n";
  return html;
}

}  // namespace rehearsal::published
