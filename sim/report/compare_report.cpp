#include "report/compare_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/json.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

std::string show_memory(const CompareRow& row) {
  const auto& f = row.figures;
  if (f[Figure::device]) return show(bytes(*f[Figure::device]));
  const bool abstract = f[Figure::in_flight].has_value();
  const double allocated = f[Figure::allocated].value_or(0);
  if (!abstract) return show(bytes(allocated));
  return allocated > 0 ? fmt::format("{:g}", allocated) : "";
}

// The names that distinguish rows, one cell for each of `headings`.
struct Names {
  std::vector<std::string> keys, headings;
  bool files = false;

  explicit Names(std::span<const CompareRow> rows, bool with_file = false) {
    for (const auto& row : rows) {
      files = files || row.file != rows.front().file;
      for (const auto& [key, value] : row.set)
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
    files = files || keys.empty() || with_file;
    if (files) headings.push_back(with_file ? "file" : "scenario");
    headings.insert(headings.end(), keys.begin(), keys.end());
  }
  std::vector<std::string> cells(const CompareRow& row) const {
    std::vector<std::string> cells;
    if (files) cells.push_back(row.file);
    for (const auto& key : keys) {
      auto& cell = cells.emplace_back();
      for (const auto& [mine, value] : row.set)
        if (mine == key) cell = value;
    }
    return cells;
  }
};

}  // namespace

Json value_of(const std::string& text) {
  const auto value = Json::read(text);
  const bool scalar = value && (value->is_number() || value->is_boolean() || value->is_null());
  return scalar ? *value : Json(text);
}

std::string compare_text(std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                         const CompareTextOptions& options) {
  const Paint paint{options.style.color};
  const Names names(rows);
  bool rates = false, exposed = false, memory = false, fits = false, abstract = false;
  bool days = false, costs = false;  // whether rows have jobs with these
  std::set<double> sizes;            // cluster sizes
  for (const auto& row : rows) {
    if (!row.worked()) continue;
    const auto& f = row.figures;
    rates = rates || f[Figure::samples_rate];
    if (f[Figure::gpus]) sizes.insert(*f[Figure::gpus]);
    exposed = exposed || f[Figure::exposed] > 0.;
    memory = memory || !show_memory(row).empty();
    fits = fits || f[Figure::fits];
    abstract = abstract || f[Figure::in_flight];
    days = days || f[Figure::days], costs = costs || f[Figure::job_cost];
  }

  const bool prices = rates && sizes.size() > 1;  // otherwise prices repeat the times
  auto heading = names.headings;
  const auto head = [&](bool shows, std::initializer_list<Figure> figures) {
    for (const auto f : figures)
      if (shows) heading.emplace_back(kFigureTexts[std::size_t(f)].head);
  };
  head(true, {Figure::iteration}), head(rates, {Figure::samples_rate, Figure::mfu});
  // In a given pipeline ranks only wait for each other.
  if (abstract) heading.emplace_back("bubble %");
  head(!abstract, {Figure::bubble});
  head(exposed, {Figure::exposed}), head(abstract, {Figure::stages_held, Figure::in_flight});
  head(memory, {Figure::device}), head(fits, {Figure::fits});
  head(prices, {Figure::gpus, Figure::gpu_token_rate, Figure::cost});
  head(days, {Figure::days}), head(costs, {Figure::job_cost}), head(true, {Figure::relative});
  heading.emplace_back();
  std::vector<std::vector<std::string>> table_rows{heading};
  const auto number = [](const std::optional<double>& value, int digits, double scale = 1) {
    return value ? fmt::format("{:.{}f}", *value * scale, digits) : std::string();
  };
  const auto time = [](double s) { return show(seconds(s)); };
  for (const auto i : shown) {
    const auto& row = rows[i];
    const auto& f = row.figures;
    auto cells = names.cells(row);
    if (!row.worked()) {
      cells.push_back("wrong");
      cells.resize(heading.size());
      table_rows.push_back(std::move(cells));
      continue;
    }
    cells.push_back(time(*f[Figure::iteration]));
    if (rates) cells.insert(cells.end(), {number(f[Figure::samples_rate], 2), number(f[Figure::mfu], 2, 100)});
    cells.push_back(number(f[Figure::bubble], 2, 100));
    if (exposed) cells.push_back(time(f[Figure::exposed].value_or(0)));
    if (abstract) cells.insert(cells.end(), {number(f[Figure::stages_held], 0), number(f[Figure::in_flight], 0)});
    if (memory) cells.push_back(show_memory(row));
    if (fits) cells.push_back(!f[Figure::fits] ? "" : f.yes(Figure::fits) ? "yes" : "NO");
    if (prices)
      cells.insert(cells.end(),
                   {number(f[Figure::gpus], 0), number(f[Figure::gpu_token_rate], 1), number(f[Figure::cost], 3)});
    if (days) cells.push_back(f[Figure::days] ? show(Duration(86400 * *f[Figure::days])) : "");
    if (costs) cells.push_back(f[Figure::job_cost] ? show(Count(*f[Figure::job_cost])) : "");
    cells.push_back(number(f[Figure::relative], 4));
    const bool best = f.yes(Figure::best), pareto = f.yes(Figure::pareto);
    cells.push_back(best ? (pareto ? "best, Pareto" : "best") : pareto ? "Pareto" : "");
    table_rows.push_back(std::move(cells));
  }
  std::vector<bool> words(heading.size());
  std::fill_n(words.begin(), names.headings.size(), true), words.back() = true;
  std::string text = table(table_rows, paint, options.style.width, std::move(words));
  for (const auto i : shown) {
    const auto& row = rows[i];
    if (row.worked()) continue;
    std::string name;
    for (const auto& cell : names.cells(row)) name += (name.empty() ? "" : ", ") + cell;
    text += fmt::format("\n{}: {}\n", paint.bold(name), row.error);
  }
  std::string notes;
  if (!abstract) notes += "idle: of the busiest rank, which waits for others or for data, as `run` shows it.\n";
  if (exposed)
    notes += "exposed: communication that the rank that ends last waits for, in one step, as `run` shows it.\n";
  if (prices) notes += "cost: GPU time per token, over that of the first row.\n";
  if (rates && !prices) notes += fmt::format("{:.0f} GPUs in every row.\n", *sizes.begin());
  if (abstract)
    notes +=
        "stages held: parameters of a rank, in stages; in flight: forwards of one stage that a rank holds until "
        "their input gradient, at most.\n";
  if (abstract || memory)
    notes +=
        "Pareto: nothing else that fits is better in time per sequence, memory or GPUs and as good in the others.\n";
  if (!notes.empty()) text += "\n" + notes;

  // Warnings shared by several variants are printed once.
  std::map<std::string, std::size_t> warned;
  std::vector<std::string> order;
  for (const auto i : shown)
    for (const auto& w : rows[i].warnings)
      if (warned[w]++ == 0) order.push_back(w);
  if (options.warnings && !order.empty()) {
    text += "\n" + paint.bold("Warnings") + "\n";
    for (const auto& w : order)
      text += fmt::format("  - {}{}\n", w, shown.size() > 1 ? fmt::format(" ({} of {})", warned[w], shown.size()) : "");
  }
  return fit(text, options.style.width);
}

void compare_json(const Varied& varied, std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                  const std::function<std::string(std::size_t row)>& result_of,
                  const std::function<void(std::string_view)>& write) {
  // Values of --vary come from the shell and may hold arbitrary bytes.
  const auto indented = [](const Json& json, std::string_view margin) {
    std::string text = json.dump(2);  // strings contain no raw line breaks
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 1 + margin.size())
      text.insert(at + 1, margin);
    return text;
  };
  Json vary = Json::object();
  for (const auto& [key, values] : varied) {
    auto& list = vary[key] = Json::array();
    for (const auto& value : values) list.push_back(value_of(value));
  }
  write("{\n  \"vary\": " + indented(vary, "  ") + ",\n  \"rows\": [");
  for (std::size_t n = 0; n < shown.size(); n++) {
    const auto& row = rows[shown[n]];
    const auto& f = row.figures;
    Json entry{{"set", Json::object()}};
    for (const auto& [key, value] : row.set) entry["set"][key] = value_of(value);
    if (row.worked()) {
      entry["relative"] = *f[Figure::relative];
      entry["relative_cost"] = f[Figure::cost];
      entry["tokens_per_s_per_gpu"] = f[Figure::gpu_token_rate];
      entry["best"] = f.yes(Figure::best);
      entry["pareto"] = f.yes(Figure::pareto);
      if (f[Figure::in_flight])
        for (const auto held : {Figure::stages_held, Figure::in_flight})
          entry[kFigureTexts[std::size_t(held)].name] = number(f[held]);
      entry.update(Json::parse(result_of(shown[n])));
    } else {
      entry["scenario"] = {{"file", row.file}};
      entry["error"] = row.error;
    }
    write((n ? ",\n    " : "\n    ") + indented(entry, "    "));
  }
  write(shown.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

std::string compare_csv(std::span<const CompareRow> rows, std::span<const std::size_t> shown) {
  const Names names(rows, true);
  auto heading = names.headings;
  for (const auto& figure : kFigureTexts) heading.emplace_back(figure.name);
  heading.emplace_back("error");
  std::string csv = csv_line(heading);
  for (const auto i : shown) {
    const auto& row = rows[i];
    auto cells = names.cells(row);
    for (std::size_t n = 0; n < kFigures; n++) {
      const auto& value = row.figures[Figure(n)];
      const bool yes = kFigureTexts[n].kind == FigureText::Kind::yes;
      cells.push_back(!value || !row.worked() ? ""
                      : yes                   ? (*value == 1 ? "true" : "false")
                                              : fmt::format("{}", *value));
    }
    cells.push_back(row.error);
    csv += csv_line(cells);
  }
  return csv;
}

}  // namespace rehearsal::report
