// Rows of a store and rows of a table: the same figures, once in SQL and once in a report.
#pragma once
#include <string>
#include <vector>

#include "explore/compare.hpp"
#include "report/compare_report.hpp"
#include "store/store.hpp"

namespace rehearsal::cli {

// The figures that a store keeps.
std::vector<store::Column> stored_columns();

// What was set, as the point holds it and back.
store::Point point_of(const std::string& store, const explore::Variant& variant,
                      const std::vector<std::string>& common);
explore::Settings settings_of(const store::Point& point);

store::Row stored(const store::Point& point, const std::string& digest, const report::CompareRow& row,
                  std::string result);
// `set`: what tells this row from others.
report::CompareRow row_of(const store::Row& row, explore::Settings set);

// The order of rows that nobody gave one: by file, then by what is set, numbers as numbers.
std::vector<std::size_t> by_value(const std::vector<report::CompareRow>& rows);

}  // namespace rehearsal::cli
