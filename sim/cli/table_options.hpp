// Shared by `compare` and `sweep`: the variants, the number of threads, the rows shown, and writing the table.
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

// --vary --jobs --sort --top --fits --pareto --html --svg --picture, plus the command's own options.
OptionList table_options(TableOptions& to, OptionList own = {});
// The explanation of these options for `--help`.
std::string table_help();

// Reads the numbers; throws UserError. Without --sort, --top selects the fastest that fit.
void read_table_options(TableOptions& options);

// The variants that --vary makes of these scenario files. Throws UserError.
struct Variants {
  std::vector<explore::Variant> all;
  report::Varied varied;
};
Variants variants_of(const TableOptions& options, std::span<const std::string> files);

// The row of a prediction, and the row of errors.
report::CompareRow row_of(const explore::Variant& variant, const answer::Result& prediction);
report::CompareRow row_of(const explore::Variant& variant, const std::vector<Diagnostic>& errors);

// Ranks the rows and writes the report in the requested format.
void emit_rows(const CommonOptions& common, const TableOptions& options, const report::Varied& varied,
               std::span<report::CompareRow> rows, const std::function<std::string(std::size_t)>& result_of);

}  // namespace rehearsal::cli
