#include "report/explain_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/decimal.hpp"
#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/json.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using explore::Advice;
using explore::Sensitivity;

// Text omits anything smaller, unless everything is requested.
constexpr double kLeastPiece = .005, kLeastMove = 5e-4, kLeastGain = 5e-5;

double change(const Explanation& e, Time iteration) { return iteration / e.prediction->summary.iteration - 1; }

std::string percent(double share, int digits = 1) { return fmt::format("{:.{}f}", 100 * share, digits); }
std::string signed_percent(double share) { return fmt::format("{:+.2f}", 100 * share); }

std::string memory_change(const Explanation& e, double bytes_more) {
  if (e.prediction->summary.abstract) return fmt::format("{:+g}", bytes_more);
  if (bytes_more == 0) return "same";
  return (bytes_more < 0 ? "-" : "+") + show(bytes(std::abs(bytes_more)));
}

std::string marks(const Sensitivity& s) {
  std::vector<std::string> all;
  if (s.kind == Sensitivity::Kind::factor) all.emplace_back("factor");
  if (s.kind == Sensitivity::Kind::measured) all.emplace_back("measured times");
  if (s.assumed) all.emplace_back("assumed");
  if (s.width > 0) all.push_back(fmt::format("fitted, +-{:.0f} %", 100 * s.width));
  if (!s.follows.empty())
    all.push_back("goes with " + s.follows.substr(s.follows.rfind('.') + 1));  // of the same section
  return fmt::format("{}", fmt::join(all, ", "));
}

class Text {
 public:
  Text(const Explanation& e, const ExplainOptions& options) : e_(e), options_(options), paint_{options.style.color} {}

  std::string run() {
    const auto& s = e_.prediction->summary;
    text_ = fmt::format("{}: an iteration takes {}\n", paint_.bold(s.name), show(s.iteration));
    answer();
    if (e_.path) path();
    if (e_.limits && !e_.limits->empty()) limits();
    if (e_.sensitivities) sensitivities();
    if (e_.advised) advice();
    return text_;
  }

 private:
  void heading(const std::string& words) { text_ += "\n" + paint_.bold(words) + "\n"; }
  void says(const std::string& words) { text_ += wrap("  " + words, std::size_t(options_.style.width), "  ") + "\n"; }

  void rows(const std::vector<std::vector<std::string>>& all, std::vector<bool> words) {
    const auto lines = table(all, paint_, std::max(20, options_.style.width - 2), std::move(words));
    std::size_t from = 0;
    for (std::size_t end; (end = lines.find('\n', from)) != std::string::npos; from = end + 1)
      text_ += (end > from ? "  " : "") + lines.substr(from, end + 1 - from);
  }

  // The summary that most readers want.
  void answer() {
    if (e_.limits && !e_.limits->empty())
      line("Limit",
           fmt::format("{}: busy {} % of the step", e_.limits->front().name, percent(e_.limits->front().share)));
    if (e_.sensitivities && !e_.sensitivities->all.empty()) {
      const auto& s = e_.sensitivities->all.front();
      line("Parameter", fmt::format("{} moves the step most: {} % when it is 10 % better", s.key,
                                    signed_percent(change(e_, s.better.iteration))));
    }
    if (!e_.advised) return;
    const auto& chosen = e_.chosen;
    const bool fits = e_.prediction->summary.fits.value_or(true);
    const auto best = std::find_if(chosen.begin(), chosen.end(), [&](const Advice* a) {
      return a->fits && (!fits || a->iteration < e_.prediction->summary.iteration);
    });
    line("Change", best == chosen.end()
                       ? std::string(fits ? "none that fits makes it shorter" : "none of one choice fits")
                       : fmt::format("{}: {} ({} %)", fmt::join((*best)->set, " "), show((*best)->iteration),
                                     signed_percent(change(e_, (*best)->iteration))));
  }
  void line(const char* what, const std::string& said) { text_ += fmt::format("  {:<11}  {}\n", what, said); }

  void path() {
    heading("What decides the step: its critical path");
    double rest = 0;
    for (const auto& piece : *e_.path) {
      if (!options_.all && piece.share < kLeastPiece) {
        rest += piece.share;
        continue;
      }
      text_ += wrap(fmt::format("  {:>5} %  {}", percent(piece.share), piece.text), std::size_t(options_.style.width),
                    "           ") +
               "\n";
    }
    if (rest > 0) text_ += fmt::format("  {:>5} %  in smaller pieces\n", percent(rest));
  }

  void limits() {
    heading("Limits: what each part of the machine would need by itself");
    std::vector<std::vector<std::string>> all{{"", "share", "alone", "moves", "at", "most on"}};
    for (const auto& limit : *e_.limits)
      all.push_back({limit.name, percent(limit.share) + " %", show(seconds(limit.seconds)),
                     decimal(limit.amount, limit.unit), decimal(limit.rate, limit.unit) + "/s", limit.whose});
    rows(all, {true, false, false, false, false, true});
    const auto& nearest = e_.limits->front();
    says(fmt::format("Nearest: {}, {} % of the step.", nearest.name, percent(nearest.share)));
  }

  void sensitivities() {
    const auto& found = *e_.sensitivities;
    heading("Effect of each parameter: the step in % when it is 10 % better or worse");
    std::vector<std::vector<std::string>> all{{"key", "now", "better", "worse", "share", ""}};
    std::size_t left_out = found.idle;
    for (const auto& s : found.all) {
      const double better = change(e_, s.better.iteration), worse = change(e_, s.worse.iteration);
      if (!options_.all && std::max(std::abs(better), std::abs(worse)) < kLeastMove) {
        ++left_out;
        continue;
      }
      all.push_back({s.key, s.value, signed_percent(better), signed_percent(worse),
                     s.counted() ? percent(s.share()) : "", marks(s)});
    }
    rows(all, {true, false, false, false, false, true});
    says(fmt::format(
        "Shares are of parameters that are times or rates; they add up to {} % of the step{}.", percent(found.sum, 2),
        left_out ? fmt::format(". {} more numbers move it by less than {} %", left_out, percent(kLeastMove, 2)) : ""));
    for (const auto& why : found.missing) says("Missing: " + why + ".");
  }

  void advice() {
    const auto& found = *e_.advised;
    heading("What to change: one choice at a time, each predicted in full");
    const auto& chosen = e_.chosen;
    const bool fits = e_.prediction->summary.fits.value_or(true);
    if (!fits) says("As it is the scenario does not fit; what is shown first does.");
    if (chosen.empty()) {
      says(fits ? "No change of one choice that fits makes the step shorter." : "No change of one choice fits.");
    } else {
      std::vector<std::vector<std::string>> all{{"iteration", "step %", "memory", "fits", "--set"}};
      for (const auto* advice : chosen)
        all.push_back({show(advice->iteration), signed_percent(change(e_, advice->iteration)),
                       memory_change(e_, advice->memory_change), advice->fits ? "yes" : "NO",
                       fmt::format("{}", fmt::join(advice->set, " "))});
      rows(all, {false, false, false, false, true});
    }
    const auto unfit = std::count_if(found.all.begin(), found.all.end(), [](const auto& a) { return !a.fits; });
    says(fmt::format("{} changes were predicted: {} do not fit, {} change nothing; {} more are not legal here.",
                     found.all.size() + found.same, unfit, found.same, found.illegal));
    for (const auto& change : found.failed)
      says(fmt::format("{} could not be predicted: a bug of this program, which `run` with it reports.",
                       fmt::join(change, " ")));
  }

  const Explanation& e_;
  const ExplainOptions& options_;
  Paint paint_;
  std::string text_;
};

}  // namespace

std::vector<const Advice*> advised(const Explanation& e, const ExplainOptions& options) {
  std::vector<const Advice*> chosen;
  const bool fits = e.prediction->summary.fits.value_or(true);
  for (const auto& advice : e.advised->all) {
    const bool good = advice.fits && (!fits || change(e, advice.iteration) < -kLeastGain);
    if (options.all || (good && chosen.size() < options.top)) chosen.push_back(&advice);
  }
  return chosen;
}

std::string explain_text(const Explanation& explanation, const ExplainOptions& options) {
  return fit(Text(explanation, options).run(), options.style.width);
}

std::string explain_csv(const Explanation& e) {
  std::string csv = csv_line({"part", "name", "change", "iteration_s", "iteration_change", "share", "elasticity",
                              "memory_change_bytes", "fits", "assumed", "text"});
  const auto real = [](double x) { return fmt::format("{}", x); };
  const auto yes = [](bool b) { return std::string(b ? "true" : "false"); };
  if (e.path)
    for (const auto& p : *e.path)
      csv += csv_line({"critical_path", graph::name(p.category), "", real(to_seconds(p.time)), "", real(p.share), "",
                       "", "", "", p.text});
  if (e.limits)
    for (const auto& l : *e.limits)
      csv += csv_line({"limit", l.name, "", real(l.seconds), "", real(l.share), "", "", "", "",
                       fmt::format("{} at {}/s on {}", decimal(l.amount, l.unit), decimal(l.rate, l.unit), l.whose)});
  if (e.sensitivities)
    for (const auto& s : e.sensitivities->all)
      for (const auto* turn : {&s.better, &s.worse})
        csv += csv_line({"sensitivity", s.key, turn->set, real(to_seconds(turn->iteration)),
                         real(change(e, turn->iteration)), s.counted() ? real(s.share()) : "", real(s.elasticity), "",
                         "", yes(s.assumed), marks(s)});
  if (e.advised)
    for (const auto* a : e.chosen)
      csv += csv_line({"advice", "", fmt::format("{}", fmt::join(a->set, " ")), real(to_seconds(a->iteration)),
                       real(change(e, a->iteration)), "", "", real(a->memory_change), yes(a->fits), "", ""});
  return csv;
}

}  // namespace rehearsal::report
