// Rows of a CSV in tests/fidelity by the names of its columns.
#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace rehearsal::fidelity {

using Row = std::map<std::string, std::string>;

// `file`: in that folder, or an absolute path. `free_end`: the last cell is a citation with commas, which no caller
// reads, and may be missing; otherwise a row has as many cells as there are columns.
inline std::vector<Row> rows(const std::string& file, bool free_end = false) {
  std::ifstream in(std::filesystem::path(TEST_DATA "/fidelity") / file);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> out;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) out.push_back(cell);
    return out;
  };
  std::string line;
  std::getline(in, line);
  const auto names = cells(line);
  std::vector<Row> all;
  while (std::getline(in, line)) {
    const auto values = cells(line);
    if (!free_end) REQUIRE(values.size() == names.size());
    auto& row = all.emplace_back();
    for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) row[names[i]] = values[i];
  }
  return all;
}

}  // namespace rehearsal::fidelity
