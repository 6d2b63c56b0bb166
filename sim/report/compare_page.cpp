// `compare` and `sweep` as a page.
#include <fmt/format.h>

#include <algorithm>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

class ComparePage {
 public:
  ComparePage(std::span<const CompareRow> rows, std::span<const std::size_t> shown) : rows_(rows), shown_(shown) {
    for (const auto i : shown) {
      files_ = files_ || rows[i].file != rows[shown.front()].file;
      abstract_ = abstract_ || rows[i].figures[Figure::in_flight];
    }
  }

  std::string name(const CompareRow& row) const {
    std::string name = files_ || row.set.empty() ? row.file.substr(row.file.rfind('/') + 1) : "";
    for (const auto& [key, value] : row.set)
      name += fmt::format("{}{} {}", name.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
    return name;
  }

  std::string of_memory() const { return abstract_ ? "memory of the worst rank" : "memory of a GPU"; }
  std::string note_of_memory() const {
    return abstract_ ? "In the unit of the scenario; without one, micro-batches in flight." : "";
  }
  Unit memory_unit() const { return abstract_ ? Unit::none : Unit::bytes; }
  // Memory on the device; for given pipelines their own unit, otherwise forwards in flight.
  static std::optional<double> memory(const CompareRow& row) {
    for (const auto figure : {Figure::device, Figure::allocated, Figure::in_flight})
      if (row.figures[figure] && *row.figures[figure] > 0) return row.figures[figure];
    return std::nullopt;
  }

  Bars times() const {
    Bars bars;
    bars.unit = Unit::seconds;
    bars.parts = {"computing or idle", "exposed communication"};
    for (const auto i : shown_) {
      if (!rows_[i].worked()) continue;
      const double iteration = *rows_[i].figures[Figure::iteration],
                   exposed = std::clamp(rows_[i].figures[Figure::exposed].value_or(0), 0., iteration);
      bars.rows.push_back(
          {name(rows_[i]), {iteration - exposed, exposed}, rows_[i].figures.yes(Figure::best) ? "best" : ""});
    }
    return bars;
  }

  // Of one GPU, with the line of what it has where that is the same for all.
  Bars memories() const {
    Bars bars;
    bars.unit = memory_unit();
    if (abstract_)
      bars.parts = {"memory"};
    else
      bars.parts = {"model states", "all else"};
    bars.limit_name = "capacity";
    bool one_limit = true;
    for (const auto i : shown_) {
      const auto& row = rows_[i];
      const auto* fits = row.figures.yes(Figure::fits) ? "fits" : row.figures[Figure::fits] ? "does not fit" : "";
      const auto held = memory(row);
      if (!row.worked() || !held) continue;
      const double states = std::min(*held, row.figures[Figure::states].value_or(0));
      bars.rows.push_back({name(row), {states, *held - states}, fits});
      if (abstract_) bars.rows.back().values = {*held};
      const auto& capacity = row.figures[Figure::capacity];
      one_limit = one_limit && capacity && (!bars.limit || bars.limit == capacity);
      bars.limit = capacity;
    }
    if (!one_limit) bars.limit.reset();
    return bars;
  }

  // What ZeRO cuts.
  Bars states() const {
    Bars bars;
    bars.unit = Unit::bytes, bars.parts = {"model states"};
    for (const auto i : shown_)
      if (const auto held = rows_[i].figures[Figure::states]; rows_[i].worked() && held && !abstract_)
        bars.rows.push_back({name(rows_[i]), {*held}});
    const auto differs = [&](const Bars::Row& row) { return row.values != bars.rows.front().values; };
    if (std::none_of(bars.rows.begin(), bars.rows.end(), differs)) bars.rows.clear();
    return bars;
  }

  Scatter front() const {
    Scatter scatter;
    scatter.x = {of_memory(), memory_unit(), false};
    scatter.y = {abstract_ ? "time of a micro-batch" : "time of a sequence", Unit::seconds, false};
    for (const auto i : shown_) {
      const auto& row = rows_[i];
      const auto held = memory(row);
      if (!row.worked() || !held || !row.figures[Figure::item_time]) continue;
      Scatter::Point point{*held, *row.figures[Figure::item_time]};
      point.tip = fmt::format("{}: {}, {}", name(row), show_amount(point.y, Unit::seconds),
                              show_amount(point.x, memory_unit()));
      point.series = row.figures[Figure::fits] && !row.figures.yes(Figure::fits) ? 1 : 0;
      if (point.series) scatter.series = {"fits", "does not fit"};
      point.marked = row.figures.yes(Figure::pareto);
      if (point.marked) point.label = name(row);
      scatter.points.push_back(std::move(point));
    }
    frontier(scatter);
    return scatter;
  }

 private:
  // For time and memory only: a front in three dimensions has points inside this one.
  static void frontier(Scatter& scatter) {
    for (const auto& p : scatter.points) {
      if (!p.marked) continue;
      const bool beaten = std::any_of(scatter.points.begin(), scatter.points.end(), [&](const auto& q) {
        return q.marked && q.x <= p.x && q.y <= p.y && (q.x < p.x || q.y < p.y);
      });
      if (!beaten) scatter.frontier.emplace_back(p.x, p.y);
    }
  }

  std::span<const CompareRow> rows_;
  std::span<const std::size_t> shown_;
  bool files_ = false, abstract_ = false;
};

}  // namespace

Page compare_page(std::span<const CompareRow> rows, std::span<const std::size_t> shown, const Asked& asked) {
  const ComparePage compared(rows, shown);
  Page page;
  page.title = "Variants side by side";
  page.made_by = "rehearse " + program_version();
  page.subtitle = fmt::format("{} variant{}", shown.size(), shown.size() == 1 ? "" : "s");
  const auto best = std::find_if(shown.begin(), shown.end(), [&](auto i) { return rows[i].figures.yes(Figure::best); });
  if (best != shown.end()) page.subtitle += fmt::format("; the fastest that fits: {}", compared.name(rows[*best]));
  Section pictures{"Time and memory", {}};
  if (auto times = compared.times(); !times.rows.empty())
    pictures.blocks.push_back({"An iteration", std::move(times), "time"});
  if (auto memories = compared.memories(); !memories.rows.empty())
    pictures.blocks.push_back(
        {"Peak " + compared.of_memory(), std::move(memories), "memory", compared.note_of_memory()});
  if (auto states = compared.states(); !states.rows.empty())
    pictures.blocks.push_back(
        {"Model states of a GPU: parameters, gradients and optimizer states", std::move(states), "model-states"});
  if (auto front = compared.front(); front.points.size() > 1)
    pictures.blocks.push_back({"Time against memory", std::move(front), "pareto",
                               "Large points: nothing that fits is better in time, memory or GPUs and as good in the "
                               "others; the line joins those of time and memory."});
  if (!pictures.blocks.empty()) page.sections.push_back(std::move(pictures));
  auto table = compare_table(rows, shown);
  table.head.back() = "mark";
  auto same = say_once(table);
  page.sections.push_back({"Every figure", {{"", std::move(table), "", std::move(same)}}});
  Entries wrong;
  for (const auto i : shown)
    if (!rows[i].worked()) wrong.entries.push_back(compared.name(rows[i]) + ": " + rows[i].error);
  if (!wrong.entries.empty()) page.sections.back().blocks.push_back({"What is wrong", std::move(wrong)});
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
