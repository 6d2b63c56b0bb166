// rehearse compare: variants of scenarios side by side.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/output.hpp"
#include "cli/threads.hpp"
#include "explore/compare.hpp"
#include "report/compare_report.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kCompareText{
    .name = "compare",
    .operands = "SCENARIO... [--vary KEY=V1,V2,...]...",
    .summary =
        "Predicts variants of scenarios and shows them in one table: every scenario with every combination of\n"
        "the values that --vary gives.",
    .more =
        "Any key that --set takes may vary; commas inside brackets, braces and quotes do not divide values.\n"
        "'relative' = time per sequence over that of the best that fits. A wrong combination is a row with its\n"
        "error. Exit status 2 when no variant works.",
    .example =
        "  rehearse compare scenarios/teaching-1f1b-8-stages.yaml --vary schedule=gpipe,1f1b,zb-h1\n"
        "  rehearse compare scenarios/gpt3-175b-1024xa100.yaml --vary batch.micro=1,2,4 \\\n"
        "    --vary 'parallelism={tensor: 8, pipeline: 8},{tensor: 8, pipeline: 16}'\n"
        "  rehearse compare scenarios/megatron21-t1/*.yaml --format csv\n",
    .takes_set = true};

// The most forwards of one stage that a rank holds; counted for given pipelines alone, whose papers speak of it.
std::int64_t in_flight(const answer::Question& question) {
  const auto& scenario = question.scenario;
  if (!scenario.abstract) return 0;
  const auto held = schedule::replay(scenario.schedule.schedule(), question.problem).in_flight_FB;
  return *std::max_element(held.begin(), held.end());
}

}  // namespace

int run_compare(const Arguments& arguments) {
  std::vector<std::string> vary;
  std::string jobs;
  const OptionList own{{"vary", "KEY=V1,V2,...", "values of one key; repeatable", &vary},
                       {"jobs", "N", "variants at a time (default: one per core)", &jobs}};
  CommonOptions common;
  const auto line = parse(kCompareText, own, arguments, common);
  if (!line) return 0;
  if (line->operands.empty())
    throw UserError("compare: name a scenario file, for example scenarios/teaching-1f1b-8-stages.yaml");
  std::vector<explore::Vary> varies;
  for (const auto& v : vary) varies.push_back(explore::parse_vary(v));
  const auto variants = explore::variants(line->operands, varies);

  std::vector<report::CompareRow> rows(variants.size());
  const auto errors =
      explore::compare(variants, common.set, number_of_jobs(jobs), [&](std::size_t i, answer::Prediction prediction) {
        const auto held = in_flight(*prediction.question);
        rows[i] = report::compare_row(std::move(prediction), held);
      });
  for (std::size_t i = 0; i < rows.size(); i++)
    rows[i].file = variants[i].file, rows[i].set = variants[i].set, rows[i].errors = errors[i];
  report::rank_rows(rows);

  const bool any = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.answer.has_value(); });
  if (common.format == Format::json) {
    report::Varied varied;
    for (const auto& [key, values] : varies) varied.emplace_back(key, values);
    emit_report(common, report::compare_json(varied, rows, std::string(version())));
  } else if (common.format == Format::csv) {
    emit_report(common, report::compare_csv(rows));
  } else if (any) {
    emit_report(common, report::compare_text(rows, {use_color(common), !common.quiet}));
  }
  if (any) return 0;
  // Nothing worked: whatever is common to all (a misspelled key, a missing file) is said once.
  std::vector<Diagnostic> mistakes;
  for (const auto& list : errors)
    for (const auto& d : list)
      if (std::none_of(mistakes.begin(), mistakes.end(), [&](const auto& m) { return format({m}) == format({d}); }))
        mistakes.push_back(d);
  throw UserError(std::move(mistakes));
}

}  // namespace rehearsal::cli
