#include "report/compare_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

// A figure as tables show it.
std::string words(Figure f, const CompareRow& row) {
  // Digits that compare well from row to row; of shares, of percents.
  static const std::map<Figure, int> kDigits{
      {Figure::samples_rate, 2},   {Figure::mfu, 2},       {Figure::bubble, 2},
      {Figure::gpus, 0},           {Figure::in_flight, 0}, {Figure::stages_held, 0},
      {Figure::gpu_token_rate, 1}, {Figure::cost, 3},      {Figure::relative, 4}};
  // Given pipelines have no device, and their own unit of memory.
  if (f == Figure::device && !row.figures[f]) f = Figure::allocated;
  const auto& value = row.figures[f];
  const auto unit = text_of(f).unit;
  if (!value) return "";
  if (const auto digits = kDigits.find(f); digits != kDigits.end())
    return fmt::format("{:.{}f}", unit == Unit::share ? *value * 100 : *value, digits->second);
  if (f == Figure::fits) return *value == 1 ? "yes" : "NO";
  if (f == Figure::days) return show(Duration(86400 * *value));
  if (f == Figure::job_cost) return show(Count(*value));
  if (f == Figure::allocated && row.figures[Figure::in_flight]) return *value > 0 ? fmt::format("{:g}", *value) : "";
  return show_amount(*value, unit);
}

bool has(std::span<const CompareRow> rows, Figure f) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.worked() && row.figures[f]; });
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

// What a row's JSON has before the answer of `run`.
Shown<CompareRow> own_figures() {
  Shown<CompareRow> row("A variant: its own figures, then those of `run`.");
  row.figure("set", Unit::none, "--set", "what distinguishes it", [](auto& r) { return settings(r.set); });
  for (const auto f : {Figure::relative, Figure::cost, Figure::gpu_token_rate, Figure::best, Figure::pareto,
                       Figure::stages_held, Figure::in_flight}) {
    const auto& [name, head, kind, unit, json, help] = text_of(f);
    constexpr const char* kTypes[] = {"number", "integer", "boolean"};
    row.item({Item::Kind::figure, std::string(name), unit, std::string(head), std::string(help), kTypes[int(kind)],
              [f](const void* of) { return static_cast<const CompareRow*>(of)->figures.json(f); }});
    if (f == Figure::stages_held || f == Figure::in_flight) row.or_left_out();
  }
  return row;
}
Shown<CompareRow> wrong_row() {
  return Shown<CompareRow>("One that is wrong.")
      .figure("set", Unit::none, "--set", "what distinguishes it", [](auto& r) { return settings(r.set); })
      .group("scenario", Shown<CompareRow>().figure("file", Unit::none, "file", "", &CompareRow::file),
             [](auto& r) -> const CompareRow& { return r; })
      .figure("error", Unit::none, "error", "what is wrong", &CompareRow::error);
}

}  // namespace

Json value_of(const std::string& text) {
  const auto value = Json::read(text);
  const bool scalar = value && (value->is_number() || value->is_boolean() || value->is_null());
  return scalar ? *value : Json(text);
}

Json settings(std::span<const std::pair<std::string, std::string>> set) {
  Json all = Json::object();
  for (const auto& [key, value] : set) all[key] = value_of(value);
  return all;
}

Table compare_table(std::span<const CompareRow> rows, std::span<const std::size_t> shown, std::vector<Figure> columns) {
  const Names names(rows);
  for (std::size_t n = 0, all = columns.empty() ? std::size_t(Figure::best) : 0; n < all; n++)
    if (has(rows, Figure(n))) columns.push_back(Figure(n));
  const bool abstract = has(rows, Figure::in_flight);
  Table table{names.headings, {}, std::vector<bool>(names.headings.size(), true)};
  for (const auto f : columns) {
    const auto& [name, head, kind, unit, json, help] = text_of(f);
    // In a given pipeline ranks only wait for each other.
    table.head.emplace_back(f == Figure::bubble && abstract ? "bubble %" : head.empty() ? name : head);
  }
  table.words.resize(table.head.size()), table.words.push_back(true), table.head.emplace_back();
  for (std::size_t n = 0; n < shown.size(); n++) {
    const auto& row = rows[shown[n]];
    auto& cells = table.rows.emplace_back();
    for (auto& name : names.cells(row)) cells.push_back({std::move(name)});
    if (!row.worked()) cells.push_back({"wrong"}), cells.resize(table.head.size());
    if (!row.worked()) continue;
    for (const auto f : columns) {
      cells.push_back({words(f, row)});
      if (text_of(f).kind == FigureText::Kind::yes) continue;
      cells.back().number = row.figures[f];
      if (row.figures[f] && !text_of(f).json.empty())
        cells.back().json = fmt::format("/rows/{}/{}", n, text_of(f).json);
    }
    const bool best = row.figures.yes(Figure::best), pareto = row.figures.yes(Figure::pareto);
    cells.push_back({best ? (pareto ? "best, Pareto" : "best") : pareto ? "Pareto" : ""});
  }
  return table;
}

std::string compare_text(std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                         const CompareTextOptions& options) {
  const Paint paint{options.style.color};
  const Names names(rows);
  bool exposed = false, memory = false;
  std::set<double> sizes, states;  // of clusters, of model states
  for (const auto& row : rows) {
    if (!row.worked()) continue;
    if (row.figures[Figure::gpus]) sizes.insert(*row.figures[Figure::gpus]);
    if (row.figures[Figure::states]) states.insert(*row.figures[Figure::states]);
    exposed = exposed || row.figures[Figure::exposed] > 0.;
    memory = memory || !words(Figure::device, row).empty();
  }
  const bool rates = has(rows, Figure::samples_rate), abstract = has(rows, Figure::in_flight);
  const bool prices = rates && sizes.size() > 1;  // otherwise prices repeat the times
  std::vector<Figure> columns;
  const auto add = [&](bool shows, std::initializer_list<Figure> figures) {
    if (shows) columns.insert(columns.end(), figures);
  };
  add(true, {Figure::iteration}), add(rates, {Figure::samples_rate, Figure::mfu}), add(true, {Figure::bubble});
  add(exposed, {Figure::exposed}), add(abstract, {Figure::stages_held, Figure::in_flight});
  add(memory, {Figure::device}), add(states.size() > 1, {Figure::states}), add(has(rows, Figure::fits), {Figure::fits});
  add(prices, {Figure::gpus, Figure::gpu_token_rate, Figure::cost});
  add(has(rows, Figure::days), {Figure::days}), add(has(rows, Figure::job_cost), {Figure::job_cost});
  add(true, {Figure::relative});
  std::string text = page::text(compare_table(rows, shown, std::move(columns)), paint, options.style.width);
  for (const auto i : shown) {
    const auto& row = rows[i];
    if (row.worked()) continue;
    std::string name;
    for (const auto& cell : names.cells(row)) name += (name.empty() ? "" : ", ") + cell;
    text += fmt::format("\n{}: {}\n", paint.bold(name), row.error);
  }
  std::string notes;
  if (!abstract)
    notes += "idle: share of the step in which the busiest rank waits for others or for data, as in `run`.\n";
  if (exposed) notes += "exposed: communication per step that the last rank to finish waits for, as in `run`.\n";
  if (states.size() > 1)
    notes += "states: parameters, gradients and optimizer states of the GPU that holds most of them.\n";
  if (prices) notes += "cost: GPU time per token, relative to the first row.\n";
  if (rates && !prices) notes += fmt::format("{:.0f} GPUs in every row.\n", *sizes.begin());
  if (abstract)
    notes +=
        "stages held: stages whose parameters a rank holds; in flight: most forwards of one stage that a rank holds "
        "until their input gradient.\n";
  if (abstract || memory)
    notes +=
        "Pareto: nothing else that fits is better in time per sequence, memory or GPUs without being worse in "
        "another.\n";
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

const Shown<Varied>& compare_answer() {
  static const auto kAnswer = [] {
    auto worked = own_figures();
    for (auto item : run_answer().items())
      item.read = {}, worked.item(std::move(item));  // compare_json has them as text
    return Shown<Varied>("Variants side by side.")
        .figure("vary", Unit::none, "--vary", "the keys that vary, with their values",
                [](const Varied& varied) {
                  Json vary = Json::object();
                  for (const auto& [key, values] : varied) {
                    auto& list = vary[key] = Json::array();
                    for (const auto& value : values) list.push_back(value_of(value));
                  }
                  return vary;
                })
        .rows("rows", std::move(worked), [](auto&) { return std::span<const CompareRow>(); })
        .or_rows(wrong_row());
  }();
  return kAnswer;
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
  const auto own = own_figures(), wrong = wrong_row();
  write("{\n  \"vary\": " + indented(compare_answer().items().front().read(&varied), "  ") + ",\n  \"rows\": [");
  for (std::size_t n = 0; n < shown.size(); n++) {
    const auto& row = rows[shown[n]];
    Json entry = (row.worked() ? own : wrong).json(row);
    if (row.worked()) entry.update(Json::parse(result_of(shown[n])));
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
    auto cells = names.cells(rows[i]);
    for (std::size_t n = 0; n < kFigures; n++) {
      const auto value = rows[i].figures.json(Figure(n));
      cells.push_back(csv_cell(&value));
    }
    cells.push_back(rows[i].error);
    csv += csv_line(cells);
  }
  return csv;
}

}  // namespace rehearsal::report
