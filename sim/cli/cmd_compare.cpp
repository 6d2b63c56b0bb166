// rehearse compare: variants of scenarios side by side, predicted now or read from a store.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/compare_store.hpp"
#include "cli/numbers.hpp"
#include "cli/progress.hpp"
#include "cli/table_options.hpp"
#include "report/run_report.hpp"

namespace rehearsal::cli {
namespace {

CommandText compare_text() {
  return {.name = "compare",
          .operands = "SCENARIO... [--vary KEY=V1,V2,...]... | STORE",
          .summary =
              "Predicts variants of scenarios and shows them in one table: every scenario with every combination of\n"
              "the values that --vary gives. With a store made by 'rehearse sweep', shows its rows.",
          .more =
              "Any key that --set takes may vary; commas inside brackets, braces and quotes do not divide values.\n"
              "'relative' = time per sequence over that of the best that fits, including steps that overflow;\n"
              "'cost' = GPU time per token over that of the first row. A wrong combination is a row with its "
              "error. Exit status 2 when no variant works.\n" +
              table_help(),
          .example =
              "  rehearse compare scenarios/teaching-1f1b-8-stages.yaml --vary schedule=gpipe,1f1b,zb-h1\n"
              "  rehearse compare scenarios/gpt3-175b-1024xa100.yaml --vary batch.micro=1,2,4 \\\n"
              "    --vary 'parallelism={tensor: 8, pipeline: 8},{tensor: 8, pipeline: 16}' --sort -mfu\n"
              "  rehearse compare scenarios/megatron21-t1/*.yaml --format csv\n"
              "  rehearse compare sweep.sqlite --fits --top 10\n",
          .takes_set = true,
          .takes_long = true};
}

// If all variants fail, an error common to all (a misspelled key, a missing file) is reported once.
[[noreturn]] void complain_once(const std::vector<std::vector<Diagnostic>>& errors) {
  std::vector<Diagnostic> mistakes;
  for (const auto& list : errors)
    for (const auto& d : list)
      if (std::none_of(mistakes.begin(), mistakes.end(), [&](const auto& m) { return format({m}) == format({d}); }))
        mistakes.push_back(d);
  throw UserError(std::move(mistakes));
}

}  // namespace

int run_compare(Session& session, const Arguments& arguments) {
  const auto text = compare_text();
  TableOptions options;
  CommonOptions common(session);
  const auto line = parse(text, table_options(options), arguments, common);
  if (!line) return 0;
  read_table_options(options);
  check_outputs(common, page_outputs(options.pages), line->operands);
  options.asked = as_asked(session, "compare", arguments, line->operands.size() == 1 ? line->operands.front() : "");
  if (line->operands.empty())
    throw UserError("compare: name a scenario file, for example scenarios/teaching-1f1b-8-stages.yaml");
  if (std::any_of(line->operands.begin(), line->operands.end(), is_store)) {
    if (line->operands.size() > 1 || !options.vary.empty() || !common.set.empty())
      throw UserError("compare: a store holds rows that are computed; give it alone, without --vary and --set");
    return show_store(line->operands.front(), options, common);
  }
  const auto what = variants_of(options, line->operands);
  const auto& variants = what.all;

  std::vector<report::CompareRow> rows(variants.size());
  std::vector<std::string> results(variants.size());
  const auto jobs = number_of_jobs(options.jobs);
  const auto errors = [&] {
    Progress progress(common);
    progress.begin("variants");
    return explore::compare(
        variants, common.set, jobs,
        [&](std::size_t i, answer::Result prediction) {
          session.go_on();
          rows[i] = row_of(variants[i], prediction);
          if (common.format == Format::json) results[i] = report::to_json(prediction).dump();
        },
        session.files(), [&](std::size_t done, std::size_t of) { progress.done(done, of); });
  }();
  for (std::size_t i = 0; i < rows.size(); i++)
    if (!errors[i].empty()) rows[i] = row_of(variants[i], errors[i]);
  const bool any = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.worked(); });
  if (any || common.format != Format::text)
    emit_rows(common, options, what.varied, rows, [&](std::size_t i) { return results[i]; });
  if (!any) complain_once(errors);
  return 0;
}

}  // namespace rehearsal::cli
