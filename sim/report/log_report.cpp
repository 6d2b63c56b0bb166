#include "report/log_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"

namespace rehearsal::report {
namespace {

using answer::Summary;

const Summary& summary_of(const LoggedRun& run) { return run.predicted.summary; }
template <class Member>
auto of_prediction(Member member) {
  return [member](const LoggedRun& run) -> decltype(auto) { return std::invoke(member, summary_of(run)); };
}
template <class Member>
auto of_steps(Member member) {
  return [member](const LoggedRun& run) -> decltype(auto) { return std::invoke(member, run.measured); };
}
std::optional<double> end_of_band(const LoggedRun& run, std::optional<double> scenario::ErrorBand::*end) {
  const auto& factor = summary_of(run).error_band.*end;
  return factor ? std::optional(*factor * to_seconds(summary_of(run).iteration)) : std::nullopt;
}

// Memory of one kind, on the GPU that holds most.
struct Held {
  std::optional<double> predicted, measured;
};
Shown<Held> held() {
  return Shown<Held>("On the GPU that holds most; null where one of the two does not say it.")
      .figure("predicted_bytes", Unit::bytes, "predicted", "", &Held::predicted)
      .figure("measured_bytes", Unit::bytes, "measured", "the most that the log says", &Held::measured)
      .figure("error", Unit::change, "error", "predicted / measured - 1", [](const Held& h) -> std::optional<double> {
        if (!h.predicted || !h.measured || *h.measured <= 0) return std::nullopt;
        return *h.predicted / *h.measured - 1;
      });
}
std::vector<std::pair<const char*, Held>> memory_of(const LoggedRun& run) {
  const auto& peak = summary_of(run).peak;
  const auto allocated = run.predicted.summary.abstract ? std::nullopt : std::optional<double>(peak.allocated);
  std::vector<std::pair<const char*, Held>> all{{"allocated", {allocated, run.log.allocated}},
                                                {"reserved", {peak.reserved, run.log.reserved}},
                                                {"device", {peak.device, run.log.device}}};
  return all;
}

Shown<LoggedRun> logged_run() {
  return Shown<LoggedRun>("One log.")
      .figure("file", Unit::none, "log", "", &LoggedRun::file)
      .figure("dialect", Unit::none, "dialect", "whose words the log has", [](auto& r) { return r.log.dialect; })
      .figure("scenario", Unit::none, "scenario", "its name", of_prediction(&Summary::name))
      .figure("gpus", Unit::none, "GPUs", "", of_prediction(&Summary::gpus))
      .figure("predicted_s", Unit::seconds, "predicted", "time of an iteration", of_prediction(&Summary::iteration))
      .figure("low_s", Unit::seconds, "from", "of the prediction's band",
              [](auto& r) { return end_of_band(r, &scenario::ErrorBand::low); })
      .figure("high_s", Unit::seconds, "to", "of the prediction's band",
              [](auto& r) { return end_of_band(r, &scenario::ErrorBand::high); })
      .figure("measured_s", Unit::seconds, "measured", "the median of the iterations behind the first ones",
              of_steps(&interchange::SteadySteps::seconds))
      .figure("error", Unit::change, "error", "predicted / measured - 1", &LoggedRun::error)
      .figure("in_band", Unit::none, "in its band", "whether the measured time is", &LoggedRun::in_band)
      .figure("measured_p10_s", Unit::seconds, "p10", "a tenth of the iterations took less",
              of_steps(&interchange::SteadySteps::low))
      .figure("measured_p90_s", Unit::seconds, "p90", "a tenth of the iterations took longer",
              of_steps(&interchange::SteadySteps::high))
      .figure("iterations", Unit::none, "iterations", "that the median is of",
              of_steps(&interchange::SteadySteps::iterations))
      .figure("dropped", Unit::none, "dropped",
              "first iterations, in which memory is allocated and kernels compiled, also after restarts",
              of_steps(&interchange::SteadySteps::dropped))
      .figure("stragglers", Unit::none, "stragglers", "iterations that took more than 1.2 medians",
              of_steps(&interchange::SteadySteps::stragglers))
      .figure("predicted_tflops_per_gpu", Unit::none, "TFLOP/s predicted", "of the model's own operations",
              of_prediction(&Summary::model_tflops_per_gpu))
      .figure("measured_tflops_per_gpu", Unit::none, "TFLOP/s measured", "as the trainer counts operations",
              of_steps(&interchange::SteadySteps::tflops))
      .named_rows("memory", held(), memory_of);
}

std::string single(const LoggedRun& run, const Showing& shown, const page::Paint& paint) {
  const auto& m = run.measured;
  const std::string at = "/logs/0";
  const auto value = [&](const char* key) { return shown.value(at + key).text; };
  std::string text = fmt::format("  Predicted    {}", paint.bold(value("/predicted_s")));
  if (const auto low = value("/low_s"); !low.empty())
    text += fmt::format("   {} to {} by its band", low, value("/high_s"));
  text += fmt::format("\n  Measured     {}   ", paint.bold(value("/measured_s")));
  if (m.lines > 1)
    text += fmt::format("median of {} iterations; {} to {} in 80 % of them", m.iterations, value("/measured_p10_s"),
                        value("/measured_p90_s"));
  else
    text +=
        "of one line of the log" + (m.iterations > 1 ? fmt::format(", the mean of {} iterations", m.iterations) : "");
  text += fmt::format("\n  Error        {}", paint.bold(value("/error")));
  if (const auto in = run.in_band()) text += *in ? "   within the band" : "   OUTSIDE the band";
  text += "\n";
  if (m.restarts > 0)
    text += fmt::format("  Warm-up      {} iterations at the start and after {} restart{} are left out\n", m.dropped,
                        m.restarts, m.restarts == 1 ? "" : "s");
  else if (m.dropped > 0)
    text +=
        fmt::format("  Warm-up      the first {} iteration{} left out\n", m.dropped, m.dropped == 1 ? " is" : "s are");
  else
    text += "  Warm-up      nothing is left out: the log has no other line\n";
  if (!m.stragglers.empty()) {
    const auto shown_first = std::min<std::size_t>(m.stragglers.size(), 8);
    text += fmt::format("  Stragglers   {} took more than 1.2 medians, at {}{}\n", m.stragglers.size(),
                        fmt::join(m.stragglers.begin(), m.stragglers.begin() + std::ptrdiff_t(shown_first), ", "),
                        shown_first < m.stragglers.size() ? ", ..." : "");
  }
  if (m.tflops)
    text += fmt::format("  TFLOP/s      {} a GPU predicted; {} in the log, which counts operations in its own way\n",
                        value("/predicted_tflops_per_gpu"), value("/measured_tflops_per_gpu"));
  for (const auto& [name, held] : memory_of(run))
    if (held.measured)
      text +=
          fmt::format("  {:<12} {} predicted, {} measured{}\n", name == std::string_view("device") ? "Memory" : name,
                      value(fmt::format("/memory/{}/predicted_bytes", name).c_str()),
                      value(fmt::format("/memory/{}/measured_bytes", name).c_str()),
                      held.predicted ? ": " + value(fmt::format("/memory/{}/error", name).c_str()) : "");
  if (!run.log.note.empty()) text += fmt::format("  Note         the log says {}\n", run.log.note);
  return text;
}

}  // namespace

std::optional<bool> LoggedRun::in_band() const {
  const auto low = end_of_band(*this, &scenario::ErrorBand::low), high = end_of_band(*this, &scenario::ErrorBand::high);
  if (!low || !high) return std::nullopt;
  return measured.seconds >= *low && measured.seconds <= *high;
}

double LoggedRuns::mean_error() const {
  double sum = 0;
  for (const auto& run : runs) sum += std::abs(run.error());
  return sum / double(runs.size());
}

const Shown<LoggedRuns>& logged_answer() {
  static const Shown<LoggedRuns> kAnswer =
      Shown<LoggedRuns>("Logs of real runs beside the predictions of their scenarios.")
          .figure("mean_absolute_error", Unit::share, "mean error", "of the absolute errors", &LoggedRuns::mean_error)
          .rows("logs", logged_run(), &LoggedRuns::runs);
  return kAnswer;
}

std::string logged_json(const LoggedRuns& all) { return logged_answer().json(all).dump(2) + "\n"; }

std::string logged_csv(const LoggedRuns& all) {
  static constexpr std::array kKeys{"file",
                                    "dialect",
                                    "scenario",
                                    "gpus",
                                    "predicted_s",
                                    "low_s",
                                    "high_s",
                                    "measured_s",
                                    "error",
                                    "in_band",
                                    "measured_p10_s",
                                    "measured_p90_s",
                                    "iterations",
                                    "dropped",
                                    "predicted_tflops_per_gpu",
                                    "measured_tflops_per_gpu"};
  std::vector<CsvColumn> columns;
  for (const auto* key : kKeys) columns.push_back({key});
  for (const char* kind : {"allocated", "reserved", "device"})
    for (const char* who : {"predicted", "measured"})
      columns.push_back({fmt::format("{}_{}_bytes", who, kind), fmt::format("/memory/{}/{}_bytes", kind, who)});
  const auto json = logged_answer().json(all);
  return csv(columns, json.find("logs")->items());
}

std::string logged_text(const LoggedRuns& all, const page::TextStyle& style) {
  const page::Paint paint{style.color};
  const auto json = logged_answer().json(all);
  const Showing shown(json, logged_answer().items());
  std::string text;
  if (all.runs.size() == 1) {
    const auto& run = all.runs.front();
    text = paint.bold(summary_of(run).name) + "\n" +
           fmt::format("  {}, a log of {}: {} GPUs\n\n", run.file, run.log.dialect, summary_of(run).gpus) +
           single(run, shown, paint) + page::notes("Warnings", run.predicted.warnings, style.width, paint) +
           page::notes(
               "Assumptions",
               std::span(run.predicted.assumptions).first(std::min<std::size_t>(6, run.predicted.assumptions.size())),
               style.width, paint);
  } else {
    text = page::text(
               shown.table("/logs", {"file", "gpus", "predicted_s", "measured_s", "error", "in_band", "iterations"}),
               paint, style.width) +
           fmt::format("\nMean of the absolute errors: {}\n", paint.bold(shown.value("/mean_absolute_error").text));
  }
  return page::fit(text, style.width);
}

}  // namespace rehearsal::report
