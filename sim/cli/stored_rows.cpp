#include "cli/stored_rows.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <tuple>

#include "base/json.hpp"

namespace rehearsal::cli {

using report::Figure;
namespace fs = std::filesystem;

std::vector<store::Column> stored_columns() {
  std::vector<store::Column> columns;
  for (std::size_t i = 0; i < report::kKeptFigures; i++) {
    const auto& figure = report::kFigureTexts[i];
    columns.push_back({std::string(figure.name), figure.kind != report::FigureText::Kind::real});
  }
  return columns;
}

namespace {

// Paths relative to the folder that the store is in: independent of where the sweep is started, and valid after the
// store has moved together with its scenarios. Two folders may have files of the same name.
std::string seen_from(const std::string& store, const std::string& file) {
  std::error_code unknown;
  const auto beside = store.find_last_not_of('/') + 1;  // a folder stands where a file would
  const auto folder = fs::weakly_canonical(fs::absolute(store.substr(0, beside)), unknown).parent_path();
  const auto seen = fs::weakly_canonical(fs::absolute(file), unknown).lexically_proximate(folder);
  return unknown || seen.empty() ? file : seen.generic_string();
}

}  // namespace

store::Point point_of(const std::string& store, const explore::Variant& variant,
                      const std::vector<std::string>& common) {
  Json set = Json::object();
  for (const auto& one : common) {
    const auto equals = one.find('=');
    set.append(one.substr(0, equals), report::value_of(one.substr(equals + 1)));
  }
  for (const auto& [key, value] : variant.set) set.append(key, report::value_of(value));
  return {seen_from(store, variant.file), set.dump()};
}

explore::Settings settings_of(const store::Point& point) {
  explore::Settings settings;
  const Json set = Json::parse(point.set);
  for (const auto& [key, value] : set.members())
    settings.emplace_back(key, value.is_string() ? value.text() : value.dump());
  return settings;
}

store::Row stored(const store::Point& point, const std::string& digest, const report::CompareRow& row,
                  std::string result) {
  store::Row kept{point, digest, row.error, {}, row.worked() ? Json(row.warnings).dump() : "", std::move(result)};
  for (std::size_t i = 0; i < report::kKeptFigures; i++) kept.numbers.push_back(row.figures[Figure(i)]);
  return kept;
}

report::CompareRow row_of(const store::Row& row, explore::Settings set) {
  report::CompareRow shown{row.point.file, std::move(set), row.error, {}, {}};
  for (std::size_t i = 0; i < report::kKeptFigures; i++) shown.figures[Figure(i)] = row.numbers[i];
  if (!row.warnings.empty()) {
    const Json warnings = Json::parse(row.warnings);
    for (const auto& w : warnings.items()) shown.warnings.push_back(w.text());
  }
  return shown;
}

std::vector<std::size_t> by_value(const std::vector<report::CompareRow>& rows) {
  // A value is a number or a text; values are compared by key in alphabetical order.
  using Value = std::tuple<std::string, bool, double, std::string>;
  std::vector<std::pair<std::string, std::vector<Value>>> places;
  for (const auto& row : rows) {
    auto& [file, values] = places.emplace_back(row.file, std::vector<Value>{});
    for (const auto& [key, text] : row.set) {
      const auto value = report::value_of(text);
      values.emplace_back(key, !value.is_number(), value.is_number() ? value.real() : 0, text);
    }
  }
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return places[a] < places[b]; });
  return order;
}

}  // namespace rehearsal::cli
