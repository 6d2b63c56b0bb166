// rehearse validate --against: predictions of published runs, scored table by table.
#include "cli/validate_against.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/error.hpp"
#include "base/spelling.hpp"
#include "cli/output_files.hpp"
#include "cli/progress.hpp"
#include "published/against.hpp"
#include "published/report.hpp"
#include "published/row_scenario.hpp"

namespace rehearsal::cli {
namespace {

namespace fs = std::filesystem;
using published::Prediction;
using published::Run;

// A folder is replaced by its tables.
std::vector<std::string> files_of(const std::vector<std::string>& tables) {
  std::vector<std::string> files;
  for (const auto& table : tables) {
    std::error_code failed;
    if (!fs::is_directory(table, failed)) {
      files.push_back(table);
      continue;
    }
    const auto before = files.size();
    for (const auto& entry : fs::directory_iterator(table))
      if (entry.path().extension() == ".csv" && published::is_table_of_runs(entry.path().string()))
        files.push_back(entry.path().string());
    if (files.size() == before) throw UserError(fmt::format("--against {}: no table of published runs there", table));
    std::sort(files.begin() + std::ptrdiff_t(before), files.end());
  }
  return files;
}

// "gpu=b200", "!model=lora", "tp=>1": a column and a pattern as in configs/published_runs.yaml.
published::Condition condition_of(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError(fmt::format("--where is '{}'; it takes COLUMN=PATTERN, such as gpu=b200", text));
  return {text.substr(0, equals), {published::lower(text.substr(equals + 1))}};
}

std::vector<Run> read_tables(const AgainstOptions& options) {
  std::vector<Run> runs;
  for (const auto& file : files_of(options.tables))
    for (auto& run : published::read_runs(file)) runs.push_back(std::move(run));
  for (const auto& text : options.where) {
    const auto condition = condition_of(text);
    const auto column = condition.column.substr(condition.column.starts_with('!'));
    if (std::none_of(runs.begin(), runs.end(), [&](const Run& run) { return run.cells.count(column) > 0; }))
      throw UserError(fmt::format("--where: no table has a column '{}'", column));
    std::erase_if(runs, [&](const Run& run) { return !published::fits(condition, run.cell(column)); });
    if (runs.empty()) throw UserError(fmt::format("--where {}: no row is left", text));
  }
  if (options.only.empty()) return runs;
  std::vector<std::string> known;
  for (const auto& run : runs)
    if (std::find(known.begin(), known.end(), run.table) == known.end()) known.push_back(run.table);
  for (const auto& name : options.only)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(fmt::format("--table: no row belongs to '{}'{}", name, suggestion(name, known)));
  std::erase_if(runs, [&](const Run& run) {
    return std::find(options.only.begin(), options.only.end(), run.table) == options.only.end();
  });
  return runs;
}

published::FrameworkDetail framework_detail(const std::string& name) {
  using enum published::FrameworkDetail;
  if (name == "knobs") return knobs;
  if (name == "profile") return profile;
  if (name == "none") return none;
  throw UserError(fmt::format("--software is '{}'{}", name, suggestion(name, {"knobs", "profile", "none"})));
}

void write_scenarios(const CommonOptions& common, const AgainstOptions& options, const std::vector<Run>& runs,
                     published::FrameworkDetail detail) {
  std::error_code failed;
  fs::create_directories(options.scenarios, failed);
  if (failed) throw UserError(fmt::format("--scenarios {}: {}", options.scenarios, failed.message()));
  const auto mapping = published::read_mapping();
  for (const auto& run : runs) {
    const auto row = published::scenario_of(run, mapping, detail);
    if (row.yaml.empty()) continue;
    std::string also;  // settings from the table's knobs
    for (const auto& set : row.sets) also += fmt::format(" --set '{}'", set);
    if (!also.empty()) also = fmt::format("# rehearse run {}.yaml{}\n", run.id, also);
    write_file(common, (fs::path(options.scenarios) / (run.id + ".yaml")).string(), also + row.yaml);
  }
}

std::vector<Prediction> predicted(const std::vector<Run>& runs, published::ValidationRun& against, Progress& progress) {
  progress.begin("different runs");
  against.done = [&](std::size_t done, std::size_t of) { progress.done(done, of); };
  return published::predict(runs, against);
}

int report_budget(const CommonOptions& common, const std::vector<Run>& runs, published::ValidationRun against) {
  const auto effects = explore::effects();
  std::optional<Progress> progress(std::in_place, common, 1 + effects.size());
  against.memory = against.forecast = false;
  published::Budget budget{published::score(predicted(runs, against, *progress)), {}};
  for (const auto& effect : effects) {
    against.without = &effect;
    budget.removals.push_back({&effect, published::score(predicted(runs, against, *progress))});
  }
  progress.reset();
  emit_report(common, {.text = [&] { return published::budget_text(budget, text_style(common)); },
                       .json = [&] { return published::budget_answer().json_text(budget); },
                       .csv = [&] { return published::budget_csv(budget); }});
  return 0;
}

}  // namespace

OptionList against_options(AgainstOptions& o) {
  return {
      {"against", "TABLE.csv", "tables of published runs, or folders of them", &o.tables, true},
      {"table", "NAME", "only the rows of these tables", &o.only, true},
      {"where", "COLUMN=TEXT", "only rows whose column says so; ^begins, =equals, >number; !COLUMN: does not", &o.where,
       true},
      {"rows", "", "every row, not only every table", &o.rows},
      {"software", "knobs|profile|none",
       "what scenarios take from the table about the framework: all settings (default), its profile, nothing",
       &o.framework},
      {"scenarios", "DIR", "write the scenario of every row to DIR", &o.scenarios},
      {"budget", "", "score again with each effect of the cost model left out", &o.budget},
      {"bands", "", "print error bands as in configs/error_bands.yaml", &o.bands},
      {"forecast", "FILE", "write the prediction of each row, without anything measured, to keep with its date",
       &o.forecast},
  };
}

int validate_against(const CommonOptions& common, const AgainstOptions& options, const PageOptions& pages) {
  auto outputs = page_outputs(pages);
  outputs.push_back({"--forecast", options.forecast});
  check_outputs(common, outputs, options.tables);
  const auto runs = read_tables(options);
  published::ValidationRun against;
  against.framework = framework_detail(options.framework);
  against.sets = common.set;
  against.jobs = std::max(1u, std::thread::hardware_concurrency());
  if (!options.scenarios.empty()) write_scenarios(common, options, runs, against.framework);
  if (options.budget) return report_budget(common, runs, against);

  const auto predictions = [&] {
    Progress progress(common);
    return predicted(runs, against, progress);
  }();
  if (!options.forecast.empty()) write_file(common, options.forecast, published::forecast_csv(predictions));
  write_pages(common, pages, [&] { return published::against_page(predictions); });
  if (options.bands)
    emit_report(common, published::bands_yaml(predictions));
  else
    emit_report(common, {.text =
                             [&] {
                               return published::against_text(predictions, options.rows, text_style(common),
                                                              published::coverage(predictions, against.jobs));
                             },
                         .json = [&] { return published::against_answer().json_text(predictions); },
                         .csv = [&] { return published::against_csv(predictions); }});
  if (!options.tolerance) return 0;
  return published::overall(published::score(predictions)).mean <= *options.tolerance ? 0 : 1;
}

}  // namespace rehearsal::cli
