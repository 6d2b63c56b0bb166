// What `compare` and `sweep` share: which variants, how many threads, which rows of the table, and writing it.
#pragma once
#include <functional>
#include <span>
#include <string>

#include "cli/output.hpp"
#include "cli/page_options.hpp"
#include "explore/compare.hpp"
#include "report/compare_report.hpp"

namespace rehearsal::cli {

struct TableOptions {
  std::vector<std::string> vary;
  std::string jobs, top;
  report::Choice choice;
  PageOptions pages;
  report::Asked asked;  // for a page
};

// --vary --jobs --sort --top --fits --pareto --html --svg --picture, with those that a command has besides.
OptionList table_options(TableOptions& to, OptionList own = {});
// What they mean in words, for `--help`.
std::string table_help();

// Reads the numbers; throws UserError. Without --sort, --top means the fastest that fit.
void read_table_options(TableOptions& options);

// What --vary makes of these scenario files. Throws UserError.
struct Variants {
  std::vector<explore::Variant> all;
  report::Varied varied;
};
Variants variants_of(const TableOptions& options, std::span<const std::string> files);

// The figures of a prediction as a row, and the row of what is wrong.
report::CompareRow row_of(const explore::Variant& variant, const answer::Result& prediction);
report::CompareRow row_of(const explore::Variant& variant, const std::vector<Diagnostic>& errors);

// Ranks the rows and writes the report in the format that was asked for.
void emit_rows(const CommonOptions& common, const TableOptions& options, const report::Varied& varied,
               std::span<report::CompareRow> rows, const std::function<std::string(std::size_t)>& result_of);

}  // namespace rehearsal::cli
