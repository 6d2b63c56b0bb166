// Converts between rows of a store and rows of a table: the same figures in SQL and in a report.
#pragma once
#include <string>
#include <vector>

#include "explore/compare.hpp"
#include "report/compare_report.hpp"
#include "store/store.hpp"

namespace rehearsal::cli {

// The figures kept in a store.
std::vector<store::Column> stored_columns();

// Settings as a point holds them, and back.
store::Point point_of(const std::string& store, const explore::Variant& variant,
                      const std::vector<std::string>& common);
explore::Settings settings_of(const store::Point& point);

store::Row stored(const store::Point& point, const std::string& digest, const report::CompareRow& row,
                  std::string result);
// `set`: the settings that distinguish this row.
report::CompareRow row_of(const store::Row& row, explore::Settings set);

// The default order of rows: by file, then by settings, numbers compared as numbers.
std::vector<std::size_t> by_value(const std::vector<report::CompareRow>& rows);

}  // namespace rehearsal::cli
