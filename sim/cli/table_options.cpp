#include "cli/table_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/numbers.hpp"
#include "page/layout.hpp"
#include "report/pages.hpp"

namespace rehearsal::cli {

OptionList table_options(TableOptions& to, OptionList own) {
  std::vector<std::string> columns;
  for (const auto& figure : report::kFigureTexts) columns.emplace_back(figure.name);
  own.insert(own.begin(), {"vary", "KEY=V1,V2,...", "values of one key; repeatable", &to.vary});
  const OptionList table{
      {"jobs", "N", "variants at once (default: one per core)", &to.jobs},
      {"sort", "COLUMN", "order the rows; -COLUMN: the largest first", &to.choice.sort, false, columns, true},
      {"top", "N", "only the first N rows; without --sort the fastest that fit", &to.top},
      {"fits", "", "only the rows that fit their GPUs", &to.choice.fits},
      {"pareto", "", "only the Pareto-optimal rows (time, memory, GPUs) among those that fit", &to.choice.pareto}};
  own.insert(own.end(), table.begin(), table.end());
  return with_page_options(std::move(own), to.pages, "draw times, memory and the Pareto front",
                           {"time", "memory", "model-states", "pareto"});
}

Variants variants_of(const TableOptions& options, std::span<const std::string> files) {
  Variants variants;
  std::vector<explore::Vary> varies;
  for (const auto& option : options.vary) varies.push_back(explore::parse_vary(option));
  std::vector<std::string> keys;
  for (const auto& [key, values] : varies) variants.varied.emplace_back(key, values), keys.push_back(key);
  report::check_sort(options.choice, keys);
  variants.all = explore::variants(files, varies);
  return variants;
}

std::string table_help() {
  std::string text = "Columns of --sort: file, every key that varies, the heads of the table, those of --format csv:\n";
  std::string names;
  for (const auto& figure : report::kFigureTexts) names += (names.empty() ? "" : ", ") + std::string(figure.name);
  return text + "  " + page::wrap(names, 96, "  ") + ".\n";
}

void read_table_options(TableOptions& options) {
  check_page_options(options.pages);
  if (options.top.empty()) return;
  options.choice.top = whole_number("--top", options.top, 1, 1'000'000);
  if (options.choice.sort.empty())
    options.choice.sort = report::kFigureTexts[std::size_t(report::Figure::item_time)].name, options.choice.fits = true;
}

report::CompareRow row_of(const explore::Variant& variant, const answer::Result& prediction) {
  return {variant.file, variant.set, "", report::figures(prediction), prediction.warnings};
}

report::CompareRow row_of(const explore::Variant& variant, const std::vector<Diagnostic>& errors) {
  return {variant.file, variant.set, format(errors), {}, {}};
}

void emit_rows(const CommonOptions& common, const TableOptions& options, const report::Varied& varied,
               std::span<report::CompareRow> rows, const std::function<std::string(std::size_t)>& result_of) {
  report::rank_rows(rows);
  const auto shown = report::choose(rows, options.choice);
  write_pages(common, options.pages, [&] { return report::compare_page(rows, shown, options.asked); });
  switch (common.format) {
    case Format::json:
      return write_streamed(common, common.output,
                            [&](const Pieces& write) { report::compare_json(varied, rows, shown, result_of, write); });
    case Format::csv:
      return emit_report(common, report::compare_csv(rows, shown));
    case Format::text:
      return emit_report(common, report::compare_text(rows, shown, {text_style(common), !common.quiet}));
  }
}

}  // namespace rehearsal::cli
