// Ranks, selects and sorts the rows of `compare` and `sweep`.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <variant>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "report/compare_report.hpp"

namespace rehearsal::report {
namespace {

double weighed_memory(const CompareRow& row) {
  const auto &device = row.figures[Figure::device], &allocated = row.figures[Figure::allocated];
  return device ? *device : allocated.value_or(0) > 0 ? *allocated : row.figures[Figure::in_flight].value_or(0);
}

bool unfit(const CompareRow& row) { return row.figures[Figure::fits] == 0.; }

std::optional<double> gpu_seconds_per_token(const CompareRow& row) {
  const auto& rate = row.figures[Figure::gpu_token_rate];
  return rate && *rate > 0 ? std::optional(1 / *rate) : std::nullopt;
}

// Marks the Pareto front of `candidates`: rows that no other row beats in time, memory or GPUs while equalling the
// rest.
void mark_pareto(std::span<CompareRow> rows, std::vector<std::size_t> candidates) {
  using Place = std::tuple<double, double, double>;
  std::vector<Place> places(rows.size());
  for (const auto i : candidates)
    places[i] = {*rows[i].figures[Figure::item_time], weighed_memory(rows[i]),
                 rows[i].figures[Figure::gpus].value_or(0)};
  std::sort(candidates.begin(), candidates.end(),
            [&](auto a, auto b) { return std::pair(places[a], a) < std::pair(places[b], b); });
  // In this order better rows come first, so comparing with the front is enough.
  std::vector<Place> front;
  for (const auto i : candidates) {
    const auto& [time, memory, gpus] = places[i];
    const bool worse = std::any_of(front.begin(), front.end(), [&, memory = memory, gpus = gpus](const Place& other) {
      return other != places[i] && std::get<1>(other) <= memory && std::get<2>(other) <= gpus;
    });
    if (worse) continue;
    rows[i].figures[Figure::pareto] = 1;
    if (front.empty() || front.back() != places[i]) front.push_back(places[i]);
  }
}

// Sorts numbers before texts, and empty cells last.
using Cell = std::variant<double, std::string, std::monostate>;

Cell cell_of(const std::string& text) {
  const auto value = value_of(text);
  if (value.is_number()) return value.real();
  return text.empty() ? Cell(std::monostate{}) : Cell(text);
}

std::optional<Figure> figure_named(const std::string& name) {
  for (std::size_t f = 0; f < kFigures; f++)
    if (kFigureTexts[f].name == name || (!name.empty() && kFigureTexts[f].head == name)) return Figure(f);
  return std::nullopt;
}

std::function<Cell(const CompareRow&)> column(const std::string& name) {
  if (const auto f = figure_named(name))
    return [f](const CompareRow& row) -> Cell {
      const auto& value = row.figures[*f];
      return value && row.worked() ? Cell(*value) : Cell(std::monostate{});
    };
  if (name == "file") return [](const CompareRow& row) { return cell_of(row.file); };
  return [name](const CompareRow& row) {
    for (const auto& [key, value] : row.set)
      if (key == name) return cell_of(value);
    return Cell(std::monostate{});
  };
}

}  // namespace

void rank_rows(std::span<CompareRow> rows) {
  CompareRow* best = nullptr;
  const CompareRow* first = nullptr;  // its token count applies the price to all
  std::vector<std::size_t> candidates;
  for (auto& row : rows) {
    if (!row.worked()) continue;
    // Fitting rows first, then by time; the first of equals wins.
    const auto rank = [](const CompareRow& r) { return std::pair(unfit(r), *r.figures[Figure::item_time]); };
    if (!best || rank(row) < rank(*best)) best = &row;
    if (!first && gpu_seconds_per_token(row)) first = &row;
    row.figures[Figure::best] = row.figures[Figure::pareto] = 0;
  }
  if (!best) return;
  best->figures[Figure::best] = 1;
  for (std::size_t i = 0; i < rows.size(); i++) {
    auto& row = rows[i];
    if (!row.worked()) continue;
    row.figures[Figure::relative] = *row.figures[Figure::item_time] / *best->figures[Figure::item_time];
    if (const auto price = gpu_seconds_per_token(row))
      row.figures[Figure::cost] = *price / *gpu_seconds_per_token(*first);
    if (unfit(row) == unfit(*best)) candidates.push_back(i);  // if no row fits, all are candidates
  }
  mark_pareto(rows, std::move(candidates));
}

void check_sort(const Choice& choice, std::span<const std::string> keys) {
  if (choice.sort.empty()) return;
  const auto name = choice.sort.substr(choice.sort.starts_with('-') ? 1 : 0);
  std::vector<std::string> names{"file"};
  names.insert(names.end(), keys.begin(), keys.end());
  for (const auto& f : kFigureTexts) names.emplace_back(f.name);
  if (figure_named(name) || std::find(names.begin(), names.end(), name) != names.end()) return;
  throw UserError(fmt::format("--sort: there is no column '{}'{}; there are {}", name.substr(0, 80),
                              suggestion(name, names), fmt::join(names, ", ")));
}

std::vector<std::size_t> choose(std::span<const CompareRow> rows, const Choice& choice) {
  std::vector<std::string> keys;
  for (const auto& row : rows)
    for (const auto& [key, value] : row.set)
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  check_sort(choice, keys);
  std::vector<std::size_t> chosen(rows.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (choice.fits) std::erase_if(chosen, [&](auto i) { return !rows[i].worked() || unfit(rows[i]); });
  if (choice.pareto) std::erase_if(chosen, [&](auto i) { return !rows[i].figures.yes(Figure::pareto); });
  if (!choice.sort.empty()) {
    const bool down = choice.sort.starts_with('-');
    const auto cell = column(choice.sort.substr(down ? 1 : 0));
    std::vector<Cell> cells;
    for (const auto& row : rows) cells.push_back(cell(row));
    const Cell nothing = std::monostate{};
    std::stable_sort(chosen.begin(), chosen.end(), [&](auto a, auto b) {
      if (cells[a] == nothing || cells[b] == nothing) return cells[b] == nothing && cells[a] != nothing;
      return down ? cells[b] < cells[a] : cells[a] < cells[b];
    });
  }
  if (choice.top && chosen.size() > *choice.top) chosen.resize(*choice.top);
  return chosen;
}

}  // namespace rehearsal::report
