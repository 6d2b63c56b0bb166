// `explain` as a page. Its text is that page without drawings and without what moves the step by little.
#include "report/explain_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/decimal.hpp"
#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using explore::Advice;
using explore::Sensitivity;

// Text omits anything smaller, unless everything is requested.
constexpr double kLeastPiece = .005, kLeastMove = 5e-4, kLeastGain = 5e-5;
constexpr std::size_t kMostBarsShown = 24;

double change(const Explanation& e, Time iteration) { return iteration / e.prediction->summary.iteration - 1; }
bool fits_now(const Explanation& e) { return e.prediction->summary.fits.value_or(true); }
std::string settings(const Advice& advice) { return fmt::format("{}", fmt::join(advice.set, " ")); }

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

class ExplainPage {
 public:
  ExplainPage(const Explanation& e, bool all, const Asked* asked) : e_(e), all_(all || asked), asked_(asked) {}

  Page write() {
    const auto& s = e_.prediction->summary;
    page_.title = fmt::format("{}: an iteration takes {}", s.name, show(s.iteration));
    page_.made_by = "rehearse " + program_version();
    section("The step");
    add({"", Facts{answer()}});
    auto parts = breakdown_bars(*e_.prediction);
    auto note = meanings(parts);
    draw({"Where the time goes on each rank", std::move(parts), "breakdown", std::move(note)});
    if (e_.path) path();
    if (e_.limits && !e_.limits->empty()) limits();
    if (e_.sensitivities) sensitivities();
    if (e_.advised) advice();
    if (asked_) page_.sections.push_back(scenario_section(*asked_));
    return std::move(page_);
  }

 private:
  void section(const char* title) { page_.sections.push_back({title, {}}); }
  void add(Block block) { page_.sections.back().blocks.push_back(std::move(block)); }
  void draw(Block block) {
    if (asked_) add(std::move(block));
  }
  // Leaves out the rows that move the step by little; returns how many.
  template <class Rows, class IsSmall>
  std::size_t omit(Table& table, const Rows& rows, const IsSmall& is_small) const {
    if (all_) return 0;
    std::vector<std::vector<Value>> kept;
    for (std::size_t i = 0; i < rows.size(); i++)
      if (!is_small(rows[i])) kept.push_back(std::move(table.rows[i]));
    table.rows = std::move(kept);
    return rows.size() - table.rows.size();
  }

  // The summary that most readers want.
  std::vector<Fact> answer() const {
    std::vector<Fact> facts;
    if (asked_) facts.push_back(shown_.fact("/iteration_s"));
    if (e_.limits && !e_.limits->empty())
      facts.push_back({"Limit",
                       shown_.value("/limits/nearest"),
                       "",
                       {shown_.value("/limits/parts/0/share", ": busy {} of the step")}});
    if (e_.sensitivities && !e_.sensitivities->all.empty())
      facts.push_back({"Parameter",
                       shown_.value("/sensitivity/0/key", "{} moves the step most"),
                       "",
                       {shown_.value("/sensitivity/0/iteration_change", ": {} when it is 10 % better")}});
    if (!e_.advised) return facts;
    const bool fits = fits_now(e_);
    const auto best = std::find_if(e_.chosen.begin(), e_.chosen.end(), [&](const Advice* a) {
      return a->fits && (!fits || a->iteration < e_.prediction->summary.iteration);
    });
    if (best == e_.chosen.end())
      facts.push_back({"Change", {fits ? "none that fits makes it shorter" : "none of one choice fits"}});
    else
      facts.push_back({"Change",
                       {settings(**best)},
                       "",
                       {{": " + show((*best)->iteration)},
                        {" (" + show_amount(change(e_, (*best)->iteration), Unit::change) + ")"}}});
    return facts;
  }

  void path() {
    section("What decides the step");
    Bars bars{.parts = {"of the step"}, .unit = Unit::share};
    for (const auto& piece : *e_.path)
      if (bars.rows.size() < kMostBarsShown && piece.share >= .002) bars.rows.push_back({piece.text, {piece.share}});
    draw({"", std::move(bars), "critical-path"});
    auto table = shown_.table("/critical_path", {"share", "time_s", "text"});
    double rest = 0;
    omit(table, *e_.path, [&](const auto& piece) {
      const bool small = piece.share < kLeastPiece;
      if (small) rest += piece.share;
      return small;
    });
    if (rest > 0) table.rows.push_back({{show_amount(rest, Unit::share)}, {}, {"in smaller pieces"}});
    add({"What decides the step: its critical path", std::move(table)});
  }

  // One bar per part of the machine: its work or traffic, and the time that this alone would take.
  void limits() {
    section("How near the limits are");
    Bars bars{.parts = {"of the step"}, .unit = Unit::share, .limit = 1., .limit_name = "the step"};
    for (const auto& limit : *e_.limits) bars.rows.push_back({limit.name, {limit.share}});
    draw({"The roofline", std::move(bars), "limits"});
    auto table =
        shown_.table("/limits/parts", {"name=part", "share=share", "time_s", "amount", "rate_per_s", "most_on"});
    for (std::size_t i = 0; i < e_.limits->size(); i++) {
      const auto& limit = (*e_.limits)[i];
      table.rows[i][3].text = decimal(limit.amount, limit.unit);
      table.rows[i][4].text = decimal(limit.rate, limit.unit) + "/s";
    }
    add({"Limits: the time that each part of the machine would need on its own", std::move(table)});
  }

  void sensitivities() {
    const auto& found = *e_.sensitivities;
    section("What each number is worth");
    Bars bars{.parts = {"shorter step when it is a tenth better"}, .unit = Unit::share};
    for (const auto& s : found.all)
      if (const double better = change(e_, s.better.iteration);
          bars.rows.size() < kMostBarsShown && better < -kLeastMove)
        bars.rows.push_back({s.key, {-better}, s.value});
    if (!bars.rows.empty()) draw({"A tenth better", std::move(bars), "sensitivity"});
    auto table = shown_.table("/sensitivity",
                              {"key", "value", "iteration_change=better", "worse/iteration_change=worse", "share"});
    table.head.emplace_back(asked_ ? "kind" : ""), table.words = {true, false, false, false, false, true};
    for (std::size_t i = 0; i < found.all.size(); i++) table.rows[i].push_back({marks(found.all[i])});
    const auto left_out = found.idle + omit(table, found.all, [&](const Sensitivity& s) {
                            return std::max(std::abs(change(e_, s.better.iteration)),
                                            std::abs(change(e_, s.worse.iteration))) < kLeastMove;
                          });
    const bool folded = table.rows.size() > 12;
    add({"Effect of each parameter: the step when it is 10 % better or worse", std::move(table), "",
         fmt::format("Shares are of parameters that are times or rates; they add up to {:.2f} % of the step{}.",
                     100 * found.sum,
                     left_out
                         ? fmt::format(". {} more numbers move it by less than {:.2f} %", left_out, 100 * kLeastMove)
                         : ""),
         folded});
    if (!found.missing.empty()) add({"What the sum misses", Entries{found.missing}});
  }

  void advice() {
    const auto& found = *e_.advised;
    const auto& now = e_.prediction->summary;
    section("What to change");
    Scatter scatter;
    scatter.x = {"memory of the fullest GPU", now.abstract ? Unit::none : Unit::bytes, false};
    scatter.y = {"iteration", Unit::seconds, false};
    scatter.series = {"as it is", "does not fit", "one choice changed"};
    scatter.points.push_back({now.abstract ? now.peak.allocated : now.peak.device.value_or(0),
                              to_seconds(now.iteration), 0, "as it is", true, "as it is"});
    for (const auto& a : found.all)
      scatter.points.push_back(
          {a.memory, to_seconds(a.iteration), a.fits ? 2u : 1u, settings(a) + ": " + show(a.iteration)});
    draw({"Every change of one choice, predicted", std::move(scatter), "advice"});
    const bool fits = fits_now(e_);
    const auto unfit = std::count_if(found.all.begin(), found.all.end(), [](const auto& a) { return !a.fits; });
    const char* const title = "What to change: one choice at a time, each predicted in full";
    auto note = fmt::format("{} changes were predicted: {} do not fit, {} change nothing; {} more are not legal here.",
                            found.all.size() + found.same, unfit, found.same, found.illegal);
    if (!fits) note = "As it stands, the scenario does not fit; the changes shown first make it fit. " + note;
    for (const auto& change : found.failed)
      note += fmt::format(" {} could not be predicted: a bug of this program, which `run` with it reports.",
                          fmt::join(change, " "));
    if (e_.chosen.empty())
      return add({title,
                  Paragraph{fits ? "No change of one choice that fits makes the step shorter."
                                 : "No change of one choice fits."},
                  "", std::move(note)});
    auto table =
        shown_.table("/advice", {"iteration_s", "iteration_change=step", "memory_change_bytes=memory", "fits", "set"});
    table.words.back() = true;
    for (std::size_t i = 0; i < e_.chosen.size(); i++)
      table.rows[i][2].text = memory_change(e_, e_.chosen[i]->memory_change);
    add({title, std::move(table), "", std::move(note)});
  }

  const Explanation& e_;
  const bool all_;
  const Asked* const asked_;  // null: a text
  const Json json_ = explain_answer().json(e_);
  const Showing shown_{json_, explain_answer().items()};
  Page page_;
};

}  // namespace

std::vector<const Advice*> advised(const Explanation& e, const ExplainOptions& options) {
  std::vector<const Advice*> chosen;
  const bool fits = fits_now(e);
  for (const auto& advice : e.advised->all) {
    const bool good = advice.fits && (!fits || change(e, advice.iteration) < -kLeastGain);
    if (options.all || (good && chosen.size() < options.top)) chosen.push_back(&advice);
  }
  return chosen;
}

Page explain_page(const Explanation& e, const Asked& asked) { return ExplainPage(e, true, &asked).write(); }

std::string explain_text(const Explanation& e, const ExplainOptions& options) {
  return text(ExplainPage(e, options.all, nullptr).write(), options.style);
}

std::string explain_csv(const Explanation& e) {
  static const std::vector<CsvColumn> kColumns{
      {"part"},  {"name"},       {"change", "/set"},      {"iteration_s"}, {"iteration_change"},
      {"share"}, {"elasticity"}, {"memory_change_bytes"}, {"fits"},        {"assumed"},
      {"text"}};
  const auto json = explain_answer().json(e);
  std::vector<Json> rows;
  const auto each = [&](const char* part, const char* pointer, const auto& finish) {
    const Json* all = find(json, pointer);
    for (std::size_t i = 0; all && i < all->items().size(); i++) {
      auto row = all->items()[i];
      row["part"] = part;
      finish(row, i);
      rows.push_back(std::move(row));
    }
  };
  each("critical_path", "/critical_path",
       [](Json& row, std::size_t) { row["name"] = Json(row["category"]), row["iteration_s"] = Json(row["time_s"]); });
  each("limit", "/limits/parts", [&](Json& row, std::size_t i) {
    const auto& l = (*e.limits)[i];
    row["iteration_s"] = Json(row["time_s"]);
    row["text"] = fmt::format("{} at {}/s on {}", decimal(l.amount, l.unit), decimal(l.rate, l.unit), l.whose);
  });
  each("sensitivity", "/sensitivity", [&](Json& row, std::size_t i) {
    row["name"] = Json(row["key"]), row["text"] = marks(e.sensitivities->all[i]);
    rows.push_back(row);
    row.update(Json(row["worse"]));
  });
  each("advice", "/advice", [&](Json& row, std::size_t i) { row["set"] = settings(*e.chosen[i]); });
  return csv(kColumns, rows);
}

}  // namespace rehearsal::report
