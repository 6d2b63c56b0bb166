// rehearse sweep: predicts many scenarios into a store, with any number of threads, processes and ranks.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "base/sha256.hpp"
#include "cli/launched.hpp"
#include "cli/numbers.hpp"
#include "cli/output_files.hpp"
#include "cli/progress.hpp"
#include "cli/stored_rows.hpp"
#include "cli/table_options.hpp"
#include "explore/sweep.hpp"
#include "report/run_report.hpp"
#include "scenario/check.hpp"

namespace rehearsal::cli {
namespace {

using report::Figure;

CommandText sweep_text() {
  return {
      .name = "sweep",
      .operands = "SCENARIO... [--vary KEY=V1,V2,...]... --store FILE|DIR/",
      .summary =
          "Predicts every scenario with every combination of the values that --vary gives, and keeps the results\n"
          "in an SQLite file, or a folder of them. Results that are there already are not computed again.",
      .more =
          "A row is valid as long as its scenario and the version of this program are the same. A sweep that is\n"
          "stopped loses only the work under way (about a second per thread): run it again to continue. Wrong\n"
          "combinations are rows with an error. The report has the rows of this sweep in the order of its scenarios\n"
          "and values, the last --vary fastest.\n"
          "Several processes may fill one store: a FILE on one host, a DIR/ on any number of hosts that see it, each\n"
          "in a file of its own. They are started from shells, as ranks of mpirun or srun, or as an array of tasks:\n"
          "  sbatch --array=0-63 --wrap 'rehearse sweep SCENARIO --vary ... --store DIR/'\n"
          "Each begins with its part of the rows and then helps the others; the first prints the report.\n"
          "Read with 'rehearse compare FILE' (or DIR), or with SQL:\n"
          "  sqlite3 FILE 'SELECT file, \"set\", iteration_s, mfu FROM results WHERE fits ORDER BY mfu DESC'\n" +
          table_help(),
      .example =
          "  rehearse sweep scenarios/gpt3-175b-1024xa100.yaml --vary batch.micro=1,2,4 \\\n"
          "    --vary schedule=1f1b,zb-h1 --store gpt3.sqlite --top 5\n"
          "  mpirun -np 4 rehearse sweep scenarios/megatron21-t1/*.yaml --store table/ --format csv\n",
      .takes_set = true,
      .takes_long = true};
}

// Rows that are done, by others too, and the best of the store so far.
void tell(Progress& progress, const store::Store& store, const explore::SweepState& state, std::size_t points) {
  if (!progress.due()) return;
  progress.done(std::min(state.computed + state.kept + state.under_way + state.others, points));
  const auto name = [](Figure f) { return std::string(report::text_of(f).name); };
  const auto best = store.least(name(Figure::item_time), name(Figure::fits));
  if (!best) return;
  const double each = *best->numbers[std::size_t(Figure::item_time)];
  const bool given = best->numbers[std::size_t(Figure::in_flight)].has_value();
  progress.note(fmt::format("best so far {} per {}: {} {}", show(seconds(each)), given ? "micro-batch" : "sequence",
                            best->point.set, best->point.file),
                {{"best_item_s", each}, {"best_set", best->point.set}, {"best_file", best->point.file}});
}

// The row of one variant; nothing if the stored one with digest `held` is still right.
std::optional<store::Row> computed(const explore::Variant& variant, const store::Point& point,
                                   const CommonOptions& common, const std::string& held) {
  common.session.go_on();
  std::vector<std::string> sets = common.set;
  for (auto& one : variant.sets()) sets.push_back(std::move(one));
  std::string digest;
  try {
    const auto scenario = scenario::load(variant.file, sets, {}, common.session.files());
    digest = scenario.digest;
    if (digest == held) return std::nullopt;
    const auto prediction = answer::predict(scenario);
    return stored(point, digest, row_of(variant, prediction), report::to_json(prediction).dump());
  } catch (const UserError& error) {
    // An invalid scenario has no digest; that of its errors is used.
    const auto row = row_of(variant, error.diagnostics());
    if (digest.empty()) digest = sha256("error\n" + row.error);
    if (digest == held) return std::nullopt;
    return stored(point, digest, row, "");
  } catch (const InternalError& error) {
    // Among thousands of scenarios, one that meets an internal error must not stop the others.
    const std::vector<Diagnostic> bug{{{}, fmt::format("internal error: {}; please report it", error.what())}};
    return stored(point, digest, row_of(variant, bug), "");
  }
}

// Single wrong rows are stored like others, but an unknown key affects all rows that have it and is refused at once.
void refuse_unknown_keys(const std::vector<explore::Variant>& variants, const CommonOptions& common) {
  std::set<std::string> met;
  for (const auto& variant : variants) {
    auto sets = common.set;
    for (auto& one : variant.sets()) sets.push_back(std::move(one));
    bool fresh = met.insert(variant.file).second;
    for (const auto& set : sets) fresh = met.insert(variant.file + '\n' + set).second || fresh;
    if (!fresh) continue;
    try {
      scenario::load(variant.file, sets, {}, common.session.files());
    } catch (const UserError& error) {
      if (auto unknown = scenario::unknown_keys(error.diagnostics(), sets); !unknown.empty())
        throw UserError(std::move(unknown));
    }
  }
}

// K/N; without it what the launcher says.
Part part_of(const std::string& option) {
  if (option.empty()) return launched_part();
  const auto slash = option.find('/');
  if (slash == std::string::npos)
    throw UserError(fmt::format("--part '{}' is not K/N, for example --part 1/64", option.substr(0, 40)));
  const auto count = whole_number("--part", option.substr(slash + 1), 1, 1'000'000);
  return {unsigned(whole_number("--part", option.substr(0, slash), 1, count) - 1), unsigned(count)};
}

}  // namespace

int run_sweep(Session& session, const Arguments& arguments) {
  const auto text = sweep_text();
  std::string file, batch = "64", part;
  TableOptions options;
  const auto own = table_options(
      options,
      {{"store", "FILE|DIR/", "the SQLite file, or folder, that holds the results; made where there is none", &file},
       {"part", "K/N", "begin with the K-th of N parts (default: by rank, or by task of an array)", &part},
       {"batch", "N", "rows of one transaction, at most (default 64)", &batch}});
  CommonOptions common(session);
  const auto line = parse(text, own, arguments, common);
  if (!line) return 0;
  read_table_options(options);
  options.asked = as_asked(session, "sweep", arguments, line->operands.size() == 1 ? line->operands.front() : "");
  if (line->operands.empty())
    throw UserError("sweep: name a scenario file, for example scenarios/teaching-1f1b-8-stages.yaml");
  if (file.empty())
    throw UserError("sweep: --store says which file or folder holds the results, for example --store sweep.sqlite");
  store::check_name(file);
  auto inputs = line->operands;
  inputs.push_back(file);
  check_outputs(common, page_outputs(options.pages), inputs);
  const auto mine = part_of(part);
  const bool first = mine.index == 0;
  const explore::SweepOptions asked{number_of_jobs(options.jobs, share_of_cores()),
                                    whole_number("--batch", batch, 1, 100'000), mine.index, mine.count, first};
  const auto what = variants_of(options, line->operands);
  const auto& variants = what.all;
  refuse_unknown_keys(variants, common);
  std::vector<store::Point> points;
  for (const auto& variant : variants) points.push_back(point_of(file, variant, common.set));

  // The claims before the rows: what others finish in between is then counted as new.
  store::Claims claims(file, explore::sweep_key(program_version(), points));
  store::Store store(file, program_version(), stored_columns(), &claims);
  {
    const auto different = std::set<store::Point>(points.begin(), points.end()).size();
    Progress progress(common, 1, first || !launched());
    progress.begin("rows", different);
    const auto state = explore::sweep(
        store, claims, points, asked,
        [&](std::size_t i, const std::string& held) { return computed(variants[i], points[i], common, held); },
        [&](const explore::SweepState& s) {
          session.go_on();
          tell(progress, store, s, different);
        });
    if (!launched())
      progress.conclude(fmt::format("{} rows: {} computed, {} were there, {} by others", points.size(), state.computed,
                                    state.kept, points.size() - std::min(points.size(), state.computed + state.kept)));
  }
  if (!first) {
    if (!common.quiet && !launched())
      session.write(Stream::err,
                    fmt::format("the first task prints the rows; 'rehearse compare {}' shows them\n", file));
    return 0;
  }
  store.refresh();
  std::vector<report::CompareRow> rows;
  for (std::size_t i = 0; i < points.size(); i++) {
    auto row = store.row(points[i], false);
    if (!row) {  // its host was lost before the row was on the disk
      row = computed(variants[i], points[i], common, "");
      store.write(std::span(&*row, 1));
    }
    rows.push_back(row_of(*row, variants[i].set));
    rows.back().file = variants[i].file;  // as named on this command line
  }
  emit_rows(common, options, what.varied, rows,
            [&](std::size_t i) { return store.row(points[i], true).value().result; });
  return 0;
}

}  // namespace rehearsal::cli
