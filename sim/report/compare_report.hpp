// `compare` and `sweep` for people (text), for programs (JSON, contract section 2) and for tables (CSV).
//
// Variants may differ in batch, so they are ranked by time per sequence (per micro-batch where times are given).
// Memory: what the device holds (given pipelines: the unit of the scenario, or forwards held where it has no memory).
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "report/figures.hpp"

namespace rehearsal::report {

struct CompareRow {
  std::string file;
  std::vector<std::pair<std::string, std::string>> set;  // what this variant sets
  std::string error;                                     // not empty: the variant is wrong, and the rest is empty
  Figures figures;
  std::vector<std::string> warnings;

  bool worked() const { return error.empty(); }
};

// Sets the figures that depend on the other rows.
void rank_rows(std::span<CompareRow> rows);

// Which rows are shown, in which order; without a wish all, as they are.
struct Choice {
  std::string sort{};  // a figure, a key that varies, or "file"; with '-' in front the largest first
  std::optional<std::size_t> top{};
  bool fits = false;    // only those that fit
  bool pareto = false;  // only those that nothing is better than
};
// Indices of rows. Those that lack what is sorted by come last. Throws UserError for a column that is not there.
std::vector<std::size_t> choose(std::span<const CompareRow> rows, const Choice& choice);

// Numbers, true, false and null as such, everything else as the text that was given.
Json value_of(const std::string& text);

// The keys that vary with their values, as given.
using Varied = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct CompareTextOptions {
  page::TextStyle style;
  bool warnings = true;
};
// `shown`: of choose().
std::string compare_text(std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                         const CompareTextOptions& options);
std::string compare_csv(std::span<const CompareRow> rows, std::span<const std::size_t> shown);
// In pieces, since the whole may not stand in memory. `result_of`: the JSON of a row that worked.
void compare_json(const Varied& varied, std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                  const std::function<std::string(std::size_t row)>& result_of,
                  const std::function<void(std::string_view)>& write);

}  // namespace rehearsal::report
