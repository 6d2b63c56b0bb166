// Reports `compare` and `sweep` as text, as JSON (contract section 2) and as CSV.
//
// Variants may differ in batch, so they are ranked by time per sequence (per micro-batch if times are given). Memory is
// that of the device (given pipelines: in the scenario's unit, or forwards held if it has no memory).
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
  std::vector<std::pair<std::string, std::string>> set;  // settings of this variant
  std::string error;                                     // if not empty, the variant is wrong and has no figures
  Figures figures;
  std::vector<std::string> warnings;

  bool worked() const { return error.empty(); }
};

// Sets the figures that depend on the other rows.
void rank_rows(std::span<CompareRow> rows);

// Which rows are shown, and in which order; by default all, unsorted.
struct Choice {
  std::string sort{};  // a figure, a varied key, or "file"; a leading '-' sorts descending
  std::optional<std::size_t> top{};
  bool fits = false;    // only rows that fit
  bool pareto = false;  // only the Pareto front
};
// Throws UserError for an unknown column; `keys`: the varied ones.
void check_sort(const Choice& choice, std::span<const std::string> keys);
// Indices of rows. Rows without a value for the sort column come last. Throws UserError for an unknown column.
std::vector<std::size_t> choose(std::span<const CompareRow> rows, const Choice& choice);

// Numbers, true, false and null as JSON values, anything else as text.
Json value_of(const std::string& text);
// Keys with such values.
Json settings(std::span<const std::pair<std::string, std::string>> set);

// The varied keys with their values, as given.
using Varied = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct CompareTextOptions {
  page::TextStyle style;
  bool warnings = true;
};
// Every row that is shown with these figures (none: all that any row has), and what is best. `shown`: from choose().
page::Table compare_table(std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                          std::vector<Figure> columns = {});
std::string compare_text(std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                         const CompareTextOptions& options);
std::string compare_csv(std::span<const CompareRow> rows, std::span<const std::size_t> shown);
const Shown<Varied>& compare_answer();
// Writes it in pieces, since the whole may not fit in memory. `result_of`: the JSON of a successful row.
void compare_json(const Varied& varied, std::span<const CompareRow> rows, std::span<const std::size_t> shown,
                  const std::function<std::string(std::size_t row)>& result_of,
                  const std::function<void(std::string_view)>& write);

}  // namespace rehearsal::report
