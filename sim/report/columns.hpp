// Parts of a result as columns of numbers, for those who compute with them: a library's arrays, a notebook's data
// frames.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::report {

struct Column {
  std::string name, unit;  // unit: "s", "bytes"; empty: none
  std::string help;
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::int32_t>, std::vector<std::uint8_t>>
      values;
  std::vector<std::string> words = {};  // of a column of words: `values` are places here
};

// A table that a result has, made when somebody asks for it.
struct ColumnTable {
  std::string name, help;
  // Nothing for a result without graph (Result::brief).
  std::vector<Column> (*make)(const answer::Result& result);
};

// timeline: one row per task of each rank of the graph; memory: one per change of a category of a tier; ranks.
const std::vector<ColumnTable>& column_tables();

}  // namespace rehearsal::report
