#include "report/compare_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/quantity_text.hpp"
#include "report/json.hpp"
#include "report/layout.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {
namespace {

// Numbers, true, false and null as such, everything else as the text that was given.
Json value_of(const std::string& text) {
  const auto value = Json::read(text);
  const bool scalar = value && (value->is_number() || value->is_boolean() || value->is_null());
  return scalar ? *value : Json(text);
}

std::string errors_text(const CompareRow& row) {
  std::string text;
  for (const auto& d : row.errors) text += (text.empty() ? "" : "\n") + format({d});
  return text;
}

std::string show_memory(const CompareRow& row) {
  const auto& s = row.answer->summary;
  if (!row.abstract) return show(bytes(row.memory));
  return s.peak.allocated > 0 ? fmt::format("{:g}", s.peak.allocated) : "";
}

// What tells the rows apart, one cell for each of `headings`.
struct Names {
  std::vector<std::string> headings;
  bool files = false;

  explicit Names(std::span<const CompareRow> rows) {
    for (const auto& row : rows) files = files || row.file != rows.front().file;
    if (files || rows.front().set.empty()) headings.push_back("scenario"), files = true;
    for (const auto& [key, value] : rows.front().set) headings.push_back(key);
  }
  std::vector<std::string> cells(const CompareRow& row) const {
    std::vector<std::string> cells;
    if (files) cells.push_back(row.file);
    for (const auto& [key, value] : row.set) cells.push_back(value);
    return cells;
  }
};

}  // namespace

CompareRow compare_row(answer::Prediction prediction, std::int64_t in_flight) {
  CompareRow row;
  const auto& summary = prediction.summary;
  const auto& scenario = prediction.scenario();
  row.file = summary.file;
  row.abstract = summary.abstract;
  for (const auto& rank : summary.ranks)
    row.stages_held = std::max(row.stages_held, static_cast<std::uint32_t>(rank.stages.size()));
  row.in_flight = in_flight;
  row.time_per_item =
      to_seconds(summary.iteration) / double(row.abstract ? scenario.microbatches : scenario.batch.global);
  row.memory = summary.peak.device          ? *summary.peak.device
               : summary.peak.allocated > 0 ? summary.peak.allocated
                                            : double(in_flight);
  row.answer = std::move(prediction).brief();
  return row;
}

void rank_rows(std::span<CompareRow> rows) {
  CompareRow* best = nullptr;
  const auto unfit = [](const CompareRow& row) { return row.answer->summary.fits == false; };
  for (auto& row : rows) {
    if (!row.answer) continue;
    // Fitting before not fitting, then time; the first of equals.
    if (!best || std::pair(unfit(row), row.time_per_item) < std::pair(unfit(*best), best->time_per_item)) best = &row;
  }
  if (!best) return;
  best->best = true;
  for (auto& row : rows) {
    if (!row.answer) continue;
    row.relative = row.time_per_item / best->time_per_item;
    row.pareto = std::none_of(rows.begin(), rows.end(), [&](const CompareRow& other) {
      return other.answer && other.time_per_item <= row.time_per_item && other.memory <= row.memory &&
             (other.time_per_item < row.time_per_item || other.memory < row.memory);
    });
  }
}

std::string compare_text(std::span<const CompareRow> rows, const CompareTextOptions& options) {
  const Paint paint{options.color};
  const Names names(rows);
  bool rates = false, exposed = false, memory = false, fits = false, abstract = false;
  for (const auto& row : rows) {
    if (!row.answer) continue;
    rates = rates || row.answer->summary.samples_per_s;
    exposed = exposed || timeline::exposed_communication(row.answer->summary.breakdown) > Time{};
    memory = memory || !show_memory(row).empty();
    fits = fits || row.answer->summary.fits;
    abstract = abstract || row.abstract;
  }

  auto heading = names.headings;
  heading.push_back("iteration");
  if (rates) heading.insert(heading.end(), {"sequences/s", "MFU %"});
  heading.push_back("bubble %");
  if (exposed) heading.push_back("exposed");
  if (abstract) heading.insert(heading.end(), {"stages held", "in flight"});
  if (memory) heading.push_back("peak memory");
  if (fits) heading.push_back("fits");
  heading.insert(heading.end(), {"relative", ""});
  std::vector<std::vector<std::string>> table_rows{heading};
  const auto optional = [](const std::optional<double>& value, double scale) {
    return value ? fmt::format("{:.2f}", *value * scale) : std::string();
  };
  for (const auto& row : rows) {
    auto cells = names.cells(row);
    if (!row.answer) {
      cells.push_back("wrong");
      cells.resize(heading.size());
      table_rows.push_back(std::move(cells));
      continue;
    }
    const auto& s = row.answer->summary;
    cells.push_back(show(s.iteration));
    if (rates) cells.insert(cells.end(), {optional(s.samples_per_s, 1), optional(s.mfu, 100)});
    cells.push_back(fmt::format("{:.2f}", s.bubble_rate * 100));
    if (exposed) cells.push_back(show(timeline::exposed_communication(s.breakdown)));
    if (abstract)
      cells.insert(cells.end(), {row.abstract ? std::to_string(row.stages_held) : "",
                                 row.abstract ? std::to_string(row.in_flight) : ""});
    if (memory) cells.push_back(show_memory(row));
    if (fits) cells.push_back(!s.fits ? "" : *s.fits ? "yes" : "NO");
    cells.push_back(fmt::format("{:.4f}", row.relative));
    cells.push_back(row.best ? (row.pareto ? "best, Pareto" : "best") : row.pareto ? "Pareto" : "");
    table_rows.push_back(std::move(cells));
  }
  // Names and marks read better from the left; table() aligns to the right.
  for (std::size_t c = 0; c < heading.size(); c++) {
    if (c >= names.headings.size() && c + 1 != heading.size()) continue;
    std::size_t width = 0;
    for (const auto& r : table_rows) width = std::max(width, r[c].size());
    for (auto& r : table_rows) r[c].resize(width, ' ');
  }

  std::string text = table(table_rows, paint);
  for (const auto& row : rows) {
    if (row.errors.empty()) continue;
    std::string name;
    for (const auto& cell : names.cells(row)) name += (name.empty() ? "" : ", ") + cell;
    text += fmt::format("\n{}: {}\n", paint.bold(name), errors_text(row));
  }
  std::string notes;
  if (exposed)
    notes += "exposed: communication that the rank that ends last waits for, in one step, as `run` shows it.\n";
  if (abstract)
    notes +=
        "stages held: parameters of a rank, in stages; in flight: forwards of one stage that a rank holds until "
        "their\ninput gradient, at most. Pareto: nothing else is better in time or memory and as good in the other.\n";
  else if (memory)
    notes += "Pareto: nothing else is better in time per sequence or memory and as good in the other.\n";
  if (!notes.empty()) text += "\n" + notes;

  // What several variants say is said once.
  std::map<std::string, std::size_t> warned;
  std::vector<std::string> order;
  for (const auto& row : rows)
    for (const auto& w : row.answer ? row.answer->warnings : std::vector<std::string>{})
      if (warned[w]++ == 0) order.push_back(w);
  if (options.warnings && !order.empty()) {
    text += "\n" + paint.bold("Warnings") + "\n";
    for (const auto& w : order)
      text += fmt::format("  - {}{}\n", w, rows.size() > 1 ? fmt::format(" ({} of {})", warned[w], rows.size()) : "");
  }
  return text;
}

std::string compare_json(const Varied& varied, std::span<const CompareRow> rows, const std::string& version) {
  Json json{{"vary", Json::object()}, {"rows", Json::array()}};
  for (const auto& [key, values] : varied) {
    auto& list = json["vary"][key] = Json::array();
    for (const auto& value : values) list.push_back(value_of(value));
  }
  for (const auto& row : rows) {
    Json entry{{"set", Json::object()}};
    for (const auto& [key, value] : row.set) entry["set"][key] = value_of(value);
    if (row.answer) {
      entry["relative"] = row.relative;
      entry["best"] = row.best;
      entry["pareto"] = row.pareto;
      if (row.abstract) entry["stages_held"] = row.stages_held, entry["in_flight"] = row.in_flight;
      entry.update(to_json(*row.answer, version));
    } else {
      entry["scenario"] = {{"file", row.file}};
      entry["error"] = errors_text(row);
    }
    json["rows"].push_back(std::move(entry));
  }
  // Values of --vary come from the shell and may hold any bytes.
  return json.dump(2) + "\n";
}

std::string compare_csv(std::span<const CompareRow> rows) {
  const auto cell = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  std::vector<std::string> heading{"file"};
  for (const auto& [key, value] : rows.front().set) heading.push_back(key);
  heading.insert(heading.end(), {"iteration_s", "samples_per_s", "tokens_per_s", "mfu", "bubble_rate",
                                 "exposed_communication_s", "allocated_bytes", "device_bytes", "fits", "stages_held",
                                 "in_flight", "relative", "best", "pareto", "error"});
  std::string csv = csv_line(heading);
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.file};
    for (const auto& [key, value] : row.set) cells.push_back(value);
    if (row.answer) {
      const auto& s = row.answer->summary;
      const auto yes = [](bool b) { return std::string(b ? "true" : "false"); };
      cells.insert(
          cells.end(),
          {cell(to_seconds(s.iteration)), cell(s.samples_per_s), cell(s.tokens_per_s), cell(s.mfu), cell(s.bubble_rate),
           cell(to_seconds(timeline::exposed_communication(s.breakdown))), cell(s.peak.allocated), cell(s.peak.device),
           s.fits ? yes(*s.fits) : "", row.abstract ? std::to_string(row.stages_held) : "",
           row.abstract ? std::to_string(row.in_flight) : "", cell(row.relative), yes(row.best), yes(row.pareto)});
    }
    cells.resize(heading.size());
    cells.back() = errors_text(row);
    csv += csv_line(cells);
  }
  return csv;
}

}  // namespace rehearsal::report
