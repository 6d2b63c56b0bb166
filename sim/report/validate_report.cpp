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

std::string absolute_share(double share) { return show_amount(share, Unit::share); }
std::string signed_share(double share) { return show_amount(share, Unit::error); }

const Validation& itself(const Validation& v) { return v; }

using timeline::ClassDifference, timeline::Difference;

// Errors are of what was compared; nothing is too short for the clock.
auto compared(double Difference::*error) {
  return [error](const Difference& d) { return d.compared ? std::optional(d.*error) : std::nullopt; };
}
Shown<Difference> difference() {
  return Shown<Difference>("Predicted / measured - 1: negative where the real run took longer.")
      .figures(Unit::seconds, "predicted_s", &Difference::predicted, "measured_s", &Difference::measured)
      .figure("median_error", Unit::error, "median", "", compared(&Difference::median_error))
      .figure("p90_absolute_error", Unit::share, "p90", "", compared(&Difference::p90_error))
      .figures(Unit::none, "compared", &Difference::compared);
}

// Ends of all tasks of a rank, in program order, as in the timeline file.
struct RankEnds {
  std::uint32_t rank = 0;
  std::vector<Time> predicted, measured;
  std::vector<double> errors;
};
std::optional<std::vector<RankEnds>> rank_ends(const Validation& v) {
  const auto& graph = v.measured.graph();
  if (graph.tasks() > kTaskEndsLimit) return std::nullopt;
  std::vector<RankEnds> all;
  for (const auto& rank : graph.ranks()) {
    auto& ends = all.emplace_back(RankEnds{rank.job_rank, {}, {}, {}});
    for (std::size_t i = 0; i < graph.program_of(rank).size(); i++) {
      const auto task = rank.first_task + i;
      ends.predicted.push_back(v.predicted.end[task]), ends.measured.push_back(v.comparison.measured_end[task]);
      ends.errors.push_back((ends.predicted.back() - ends.measured.back()) / v.comparison.iterations.median);
    }
  }
  return all;
}

Shown<Validation> comparison() {
  using timeline::Sampling;
  const auto disturbances = [](auto& v) { return v.measured.timeline.disturbances; };
  return Shown<Validation>("The prediction against what was measured.")
      .group("prediction",
             Shown<Validation>("Made before the run.")
                 .figure("file", Unit::none, "file", "if it was kept",
                         [](auto& v) { return v.prediction_file.empty() ? Json() : Json(v.prediction_file); })
                 .figures(Unit::none, "sha256", &Validation::prediction_sha256),
             itself)
      .group("iteration", difference(), [](auto& v) { return &v.comparison.iteration; })
      .group(
          "task_ends",
          Shown<Validation>("Relative to the iteration.")
              .figures(Unit::none, "tasks", [](auto& v) { return v.measured.graph().tasks(); })
              .figures(Unit::error, "median_error", [](auto& v) { return v.comparison.end_median_error; })
              .figures(Unit::share, "p90_absolute_error", [](auto& v) { return v.comparison.end_p90_error; })
              .rows("ranks",
                    Shown<RankEnds>("Of graphs that are not too large.")
                        .figures(Unit::none, "rank", &RankEnds::rank)
                        .figures(Unit::seconds, "predicted_s", &RankEnds::predicted, "measured_s", &RankEnds::measured)
                        .figures(Unit::error, "error", &RankEnds::errors),
                    rank_ends)
              .or_left_out(),
          itself)
      .rows("classes",
            Shown<ClassDifference>("By class of task; sums of an iteration, errors of single tasks.")
                .figure("class", Unit::none, "class of task", "", &ClassDifference::name)
                .figure("in_sample", Unit::none, "sampled", "whether its very shape was measured for the prediction",
                        [](auto& c) {
                          return c.sampling == Sampling::unknown ? Json() : Json(c.sampling == Sampling::in_sample);
                        })
                .figures(Unit::none, "tasks", &ClassDifference::tasks)
                .also(difference(), &ClassDifference::of_tasks)
                .figure("sum_error", Unit::error, "sum", "of the sum",
                        [](auto& c) { return c.of_tasks.compared ? Json(c.sum_error) : Json(); }),
            [](auto& v) { return &v.comparison.classes; })
      .figures(
          Unit::none, "disturbed", [=](auto& v) { return !disturbances(v).empty(); }, "disturbances", disturbances)
      .figures(Unit::share, "tolerance", &Validation::tolerance)
      .figures(Unit::none, "ok", [](auto& v) { return v.tolerance ? Json(v.within_tolerance()) : Json(); });
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

const Shown<Validation>& validate_answer() {
  static const auto kAnswer = Shown<Validation>("A performed step, beside its prediction.")
                                  .also(run_answer(), [](auto& v) -> const Result& { return v.measured; })
                                  .group("validate", comparison(), itself);
  return kAnswer;
}

Table class_table(const Showing& shown, const Validation& v) {
  std::vector<std::string_view> columns{"class",     "tasks",        "predicted_s",       "measured_s",
                                        "sum_error", "median_error", "p90_absolute_error"};
  const auto& classes = v.comparison.classes;
  if (std::any_of(classes.begin(), classes.end(), [](auto& c) { return c.sampling != timeline::Sampling::unknown; }))
    columns.push_back("in_sample");
  auto table = shown.table("/validate/classes", columns);
  for (auto& row : table.rows)
    for (std::size_t c = 4; c < 7; c++)
      if (row[c].text.empty()) row[c].text = "-";
  return table;
}

bool Validation::within_tolerance() const {
  return !tolerance || std::abs(comparison.iteration.median_error) <= *tolerance;
}

std::string validate_text(const Validation& v, const page::TextStyle& style) {
  const Paint paint{style.color};
  const auto& c = v.comparison;
  const auto json = validate_answer().json(v);
  auto classes = class_table({json, validate_answer().items()}, v);
  if (const auto all = classes.rows.size(); all > kMaxClasses)
    classes.rows.resize(kMaxClasses), classes.rows.push_back({{fmt::format("... {} more", all - kMaxClasses)}});
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
  if (const auto& how = v.measured.measured->collectives)
    text += fmt::format("  Collectives  {}\n", collectives_note(*how));
  if (const auto links = links_note(v.measured.measured->links); !links.empty())
    text += fmt::format("  Links        {}\n", links);
  if (const auto clocks = clocks_note(v.measured.timeline); !clocks.empty())
    text += fmt::format("  Clocks       {}\n", clocks);
  text += fmt::format("  Prediction   {}\n  its sha256   {}\n",
                      v.prediction_file.empty() ? "not kept (--prediction FILE keeps it)" : v.prediction_file,
                      v.prediction_sha256);
  const std::string disturbed = disturbance_text(v.measured.timeline, style.width, paint);
  text += disturbed.empty() ? "  Machine      no disturbance noticed\n" : disturbed;
  text += "\n" + paint.bold("By class of task") + "\n" +
          "Errors are predicted / measured - 1: of the sum of all tasks, the median over tasks, and the p90 of the\n"
          "absolute value over tasks.\n" +
          page::text(classes, paint, style.width);
  text += "\n" + paint.bold("Both timelines") + "\n" + picture(v, style);
  text += notes("Warnings", v.measured.warnings, style.width, paint);
  text += notes("Assumptions", v.measured.assumptions, style.width, paint);
  return fit(text, style.width);
}

std::string validate_csv(const Validation& v) {
  const auto json = comparison().json(v);
  std::vector<Json> rows{*json.find("iteration")};
  rows.front().append("class", "iteration"), rows.front().append("tasks", 1);
  rows.front().append("sum_error", v.comparison.iteration.median_error);
  for (const auto& one : json.find("classes")->items()) rows.push_back(one);
  const auto columns =
      "class in_sample tasks predicted_s measured_s sum_error median_error p90_absolute_error compared";
  return csv(csv_columns(columns), rows);
}

}  // namespace rehearsal::report
