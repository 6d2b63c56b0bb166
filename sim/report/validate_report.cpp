#include "report/validate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/json.hpp"
#include "report/measured_text.hpp"
#include "report/picture.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMaxRanks = 24;  // of the picture: two per rank
constexpr std::size_t kMaxClasses = 20;

std::string absolute_share(double share) { return fmt::format("{:.1f} %", share * 100); }

Json difference(const timeline::Difference& d) {
  return {{"predicted_s", to_seconds(d.predicted)},
          {"measured_s", to_seconds(d.measured)},
          {"median_error", d.compared ? Json(d.median_error) : Json(nullptr)},
          {"p90_absolute_error", d.compared ? Json(d.p90_error) : Json(nullptr)},
          {"compared", d.compared}};
}

// Ends of all tasks, in program order of each rank, as in the timeline file.
Json task_ends(const Validation& v) {
  const auto& graph = v.measured.graph();
  Json json = {{"tasks", graph.tasks()},
               {"median_error", v.comparison.end_median_error},
               {"p90_absolute_error", v.comparison.end_p90_error}};
  if (graph.tasks() > kTaskEndsLimit) return json;
  Json ranks = Json::array();
  for (const auto& rank : graph.ranks()) {
    Json predicted = Json::array(), measured = Json::array(), errors = Json::array();
    for (std::size_t i = 0; i < graph.program_of(rank).size(); i++) {
      const auto task = rank.first_task + i;
      const Time p = v.predicted.end[task], m = v.comparison.measured_end[task];
      predicted.push_back(to_seconds(p)), measured.push_back(to_seconds(m));
      errors.push_back((p - m) / v.comparison.iterations.median);
    }
    ranks.push_back({{"rank", rank.job_rank}, {"predicted_s", predicted}, {"measured_s", measured}, {"error", errors}});
  }
  json["ranks"] = ranks;
  return json;
}

const char* sampled(timeline::Sampling sampling) {
  switch (sampling) {
    case timeline::Sampling::in_sample:
      return "yes";
    case timeline::Sampling::out_of_sample:
      return "no";
    case timeline::Sampling::unknown:
      return "";
  }
  return "";
}

Json in_sample(timeline::Sampling sampling) {
  return sampling == timeline::Sampling::unknown ? Json(nullptr) : Json(sampling == timeline::Sampling::in_sample);
}

Json comparison(const Validation& v) {
  Json classes = Json::array();
  for (const auto& c : v.comparison.classes) {
    Json json = {{"class", c.name}, {"in_sample", in_sample(c.sampling)}, {"tasks", c.tasks}};
    json.update(difference(c.of_tasks));
    json["sum_error"] = c.of_tasks.compared ? Json(c.sum_error) : Json(nullptr);
    classes.push_back(json);
  }
  return {{"prediction",
           {{"file", v.prediction_file.empty() ? Json(nullptr) : Json(v.prediction_file)},
            {"sha256", v.prediction_sha256}}},
          {"iteration", difference(v.comparison.iteration)},
          {"task_ends", task_ends(v)},
          {"classes", classes},
          {"disturbed", !v.measured.timeline.disturbances.empty()},
          {"disturbances", v.measured.timeline.disturbances},
          {"tolerance", v.tolerance},
          {"ok", v.tolerance ? Json(v.within_tolerance()) : Json(nullptr)}};
}

std::string class_table(const Validation& v, const Paint& paint, int width) {
  const auto& classes = v.comparison.classes;
  const bool profiled = std::any_of(classes.begin(), classes.end(),
                                    [](const auto& c) { return c.sampling != timeline::Sampling::unknown; });
  std::vector<std::vector<std::string>> rows{
      {"class of task", "tasks", "predicted", "measured", "sum", "median", "p90"}};
  if (profiled) rows[0].push_back("sampled");
  for (const auto& c : classes) {
    if (rows.size() > kMaxClasses) {
      rows.emplace_back(rows[0].size())[0] = fmt::format("... {} more", classes.size() - kMaxClasses);
      break;
    }
    const bool any = c.of_tasks.compared > 0;  // otherwise too short for the clock
    rows.push_back({c.name, grouped(c.tasks), show(c.of_tasks.predicted), show(c.of_tasks.measured),
                    any ? signed_share(c.sum_error) : "-", any ? signed_share(c.of_tasks.median_error) : "-",
                    any ? absolute_share(c.of_tasks.p90_error) : "-"});
    if (profiled) rows.back().push_back(sampled(c.sampling));
  }
  return table(rows, paint, width, {true});
}

std::string picture(const Validation& v, const page::TextStyle& style) {
  const auto& graph = v.measured.graph();
  auto spans = pipeline_spans(graph, v.predicted, 2, 0);
  const auto measured = pipeline_spans(graph, v.measured.timeline, 2, 1);
  spans.insert(spans.end(), measured.begin(), measured.end());
  GridOptions grid;
  grid.width = style.width, grid.color = style.color, grid.max_rows = kMaxRanks;
  grid.row_name = [&](std::uint32_t row) {
    return row % 2 ? std::string("  measured") : fmt::format("rank {} predicted", graph.ranks()[row / 2].job_rank);
  };
  grid.lower_case = kPipelineLowerCase;
  return draw_grid(spans, static_cast<std::uint32_t>(graph.ranks().size() * 2), grid);
}

}  // namespace

bool Validation::within_tolerance() const {
  return !tolerance || std::abs(comparison.iteration.median_error) <= *tolerance;
}

std::string signed_share(double share) { return fmt::format("{:+.1f} %", share * 100); }

std::string validate_text(const Validation& v, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& c = v.comparison;
  std::string text = paint.bold(v.measured.summary.name) + "\n";
  text += fmt::format("predicted, then performed by {} ({}): {} iteration{}\n\n", v.measured.timeline.backend,
                      timeline::name(v.measured.timeline.fidelity), c.iterations.iterations,
                      c.iterations.iterations == 1 ? "" : "s");
  text += fmt::format("  Predicted    {}\n", paint.bold(show(c.iteration.predicted)));
  text += fmt::format("  Measured     {:<16} {}\n", paint.bold(show(c.iteration.measured)),
                      paint.dim(iterations_note(c.iterations)));
  text += fmt::format("  Error        {:<16} {}\n", paint.bold(signed_share(c.iteration.median_error)),
                      paint.dim(fmt::format("prediction against median; p90 of the absolute error {}",
                                            absolute_share(c.iteration.p90_error))));
  text += fmt::format("  Task ends    {:<16} {}\n", signed_share(c.end_median_error),
                      paint.dim(fmt::format("of the iteration, median; p90 of the absolute error {}",
                                            absolute_share(c.end_p90_error))));
  if (v.tolerance)
    text += fmt::format("  Tolerance    {:<16} {}\n", absolute_share(*v.tolerance),
                        v.within_tolerance() ? "holds" : paint.bold("DOES NOT HOLD"));
  text += fmt::format("  Prediction   {}\n               sha256 {}\n",
                      v.prediction_file.empty() ? "not kept (--prediction FILE keeps it)" : v.prediction_file,
                      v.prediction_sha256);
  const std::string disturbed = disturbance_text(v.measured.timeline, style.width, paint);
  text += disturbed.empty() ? "  Machine      no disturbance noticed\n" : disturbed;
  text += "\n" + paint.bold("By class of task") + "\n" +
          "Errors are predicted / measured - 1: of the sum of all tasks, the median over tasks, and the p90 of the\n"
          "absolute value over tasks.\n" +
          class_table(v, paint, style.width);
  text += "\n" + paint.bold("Both timelines") + "\n" + picture(v, style);
  text += notes("Warnings", v.measured.warnings, style.width, paint);
  text += notes("Assumptions", v.measured.assumptions, style.width, paint);
  return fit(text, style.width);
}

std::string validate_json(const Validation& v) {
  auto json = to_json(v.measured);
  json["validate"] = comparison(v);
  return json.dump(2) + "\n";
}

std::string validate_csv(const Validation& v) {
  std::string csv = csv_line({"class", "in_sample", "tasks", "predicted_s", "measured_s", "sum_error", "median_error",
                              "p90_absolute_error", "compared"});
  const auto line = [&](const std::string& name, const char* in_sample, std::uint64_t tasks,
                        const timeline::Difference& d, double sum_error) {
    csv += csv_line({name, in_sample, std::to_string(tasks), fmt::format("{}", to_seconds(d.predicted)),
                     fmt::format("{}", to_seconds(d.measured)), fmt::format("{}", sum_error),
                     fmt::format("{}", d.median_error), fmt::format("{}", d.p90_error), std::to_string(d.compared)});
  };
  line("iteration", "", 1, v.comparison.iteration, v.comparison.iteration.median_error);
  for (const auto& c : v.comparison.classes) line(c.name, sampled(c.sampling), c.tasks, c.of_tasks, c.sum_error);
  return csv;
}

}  // namespace rehearsal::report
