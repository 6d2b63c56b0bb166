#include <algorithm>
#include <thread>

#include "answer/jobs.hpp"
#include "answer/predict.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/progress.hpp"
#include "report/jobs_report.hpp"
#include "report/perfetto.hpp"
#include "report/run_page.hpp"
#include "report/run_report.hpp"
#include "report/timeline_file.hpp"
#include "report/torch_snapshot.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kRunText{
    .name = "run",
    .operands = "SCENARIO...",
    .summary = "Predicts one iteration of each scenario: time, throughput, MFU, bubble, memory of each rank, timeline.",
    .more =
        "Exit status 1 with --require-fit when a scenario does not fit its GPUs. --timeline, --trace, "
        "--memory-snapshot, --html and --svg take one scenario at a time. A file with 'jobs' puts several scenarios on "
        "one cluster and shows the time of each, alone and beside the others.",
    .example =
        "  rehearse run scenarios/gpt3-175b-1024xa100.yaml\n"
        "  rehearse run scenarios/gpt3-175b-1024xa100.yaml --set batch.micro=2 --format json\n"
        "  rehearse run scenarios/gpt3-175b-1024xa100.yaml --trace gpt3.json.gz\n"
        "  rehearse run scenarios/gpt-10b-offload-1xv100.yaml --html offload.html\n"
        "  rehearse run scenarios/gpt-10b-offload-1xv100.yaml --svg memory.svg --picture memory",
    .takes_set = true,
    .takes_long = true};

struct RunOptions {
  std::string timeline, trace, snapshot;
  PageOptions pages;
  bool writes_one() const { return !timeline.empty() || !trace.empty() || !snapshot.empty() || pages.any(); }
  bool require_fit = false, assumptions = false;
};

// A file with `jobs`.
int run_jobs(const scenario::Jobs& file, const RunOptions& options, const CommonOptions& common) {
  if (options.writes_one())
    throw UserError(
        "run: --timeline, --trace, --memory-snapshot, --html and --svg take a scenario; a file with 'jobs' holds "
        "several");
  if (common.format == Format::csv)
    throw UserError("run: several jobs have no --format csv; text and json tell of them");
  const auto jobs = answer::predict(file);
  emit_report(common, common.format == Format::json ? report::jobs_answer().json_text(jobs)
                                                    : report::jobs_text(jobs, text_style(common)));
  const auto unfit = [](const answer::SharedJob& job) { return job.alone.summary.fits == false; };
  return options.require_fit && std::any_of(jobs.jobs.begin(), jobs.jobs.end(), unfit) ? 1 : 0;
}

}  // namespace

int run_run(Session& session, const Arguments& arguments) {
  RunOptions options;
  const OptionList own = with_page_options(
      {{"timeline", "FILE", "write every span, in our own JSON (sim/design/timeline-json.md)", &options.timeline},
       {"trace", "FILE",
        "write a trace for ui.perfetto.dev, compressed if the name ends in .gz; the page of --html opens it there",
        &options.trace},
       {"memory-snapshot", "FILE", "write the memory of every rank as PyTorch does, for pytorch.org/memory_viz",
        &options.snapshot},
       {"assumptions", "", "list every assumption in the text, not only the most influential", &options.assumptions},
       {"require-fit", "", "exit with status 1 if the memory does not suffice", &options.require_fit}},
      options.pages, "draw where time, memory and messages go, and who works when",
      {"breakdown", "timeline", "memory", "memory-by-rank", "traffic", "groups"});
  CommonOptions common(session);
  const auto line = parse(kRunText, own, arguments, common);
  if (!line) return 0;
  if (line->operands.empty())
    throw UserError("run: name a scenario file, for example scenarios/gpt3-175b-1024xa100.yaml");
  if (line->operands.size() > 1 && options.writes_one())
    throw UserError("run: --timeline, --trace, --memory-snapshot, --html and --svg take one scenario at a time");
  const std::vector<ResultFile> files{{"--timeline", options.timeline, report::write_timeline},
                                      {"--trace", options.trace, report::write_trace},
                                      {"--memory-snapshot", options.snapshot, report::write_torch_snapshot}};
  check_outputs(common, options.pages, files, line->operands);

  // All files are read before any is run, so that all errors are reported at once.
  std::vector<scenario::Scenario> scenarios;
  std::optional<scenario::Jobs> jobs;
  std::vector<Diagnostic> mistakes;
  for (const auto& path : line->operands) {
    try {
      auto either = scenario::load_either(path, common.set, session.files());
      if (auto* several = std::get_if<scenario::Jobs>(&either)) {
        if (line->operands.size() > 1) throw UserError("run: " + path + " holds several jobs; run it by itself");
        jobs = std::move(*several);
      } else {
        scenarios.push_back(std::get<scenario::Scenario>(std::move(either)));
      }
    } catch (const UserError& error) {
      mistakes.insert(mistakes.end(), error.diagnostics().begin(), error.diagnostics().end());
    }
  }
  if (!mistakes.empty()) throw UserError(std::move(mistakes));
  const Stoppable stoppable([&] { return session.stop(); });
  std::optional<Progress> progress(std::in_place, common);
  const bool several = scenarios.size() > 1;
  progress->begin(several ? "scenarios" : "predicting", several ? scenarios.size() : 0);
  if (jobs) return run_jobs(*jobs, options, common);

  std::vector<answer::Result> predictions;
  for (const auto& scenario : scenarios) {
    auto asked = answer::Options::whole([&](std::vector<std::string> sets) {
      sets.insert(sets.begin(), common.set.begin(), common.set.end());
      return scenario::load(scenario.file, sets, {}, session.files());
    });
    asked.summary.threads = std::max(1u, std::thread::hardware_concurrency());
    session.go_on();
    predictions.push_back(answer::predict(scenario, asked));
    progress->done(predictions.size());
  }
  progress.reset();
  session.keep(predictions);

  write_files(common, files, predictions.front());
  write_pages(common, options.pages, [&] {
    return report::run_page(predictions.front(), as_asked(session, "run", arguments, line->operands.front()),
                            !options.trace.empty());
  });

  emit_report(common, {.text =
                           [&] {
                             std::string text;
                             for (const auto& prediction : predictions)
                               text += (text.empty() ? "" : "\n") +
                                       report::run_text(prediction, text_style(common), options.assumptions);
                             return text;
                           },
                       .json = [&] { return report::run_json(predictions); },
                       .csv = [&] { return report::run_csv(predictions); }});
  const auto unfit = [](const answer::Result& p) { return p.summary.fits == false; };
  return options.require_fit && std::any_of(predictions.begin(), predictions.end(), unfit) ? 1 : 0;
}

}  // namespace rehearsal::cli
