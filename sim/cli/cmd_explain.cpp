// rehearse explain: what determines the step, the effect of each number of the machine, and what to change.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "cli/numbers.hpp"
#include "cli/output.hpp"
#include "cli/page_options.hpp"
#include "cli/progress.hpp"
#include "published/constants.hpp"
#include "report/pages.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kExplainText{
    .name = "explain",
    .operands = "SCENARIO",
    .summary =
        "Explains the step of a scenario: its critical path in words, how near it is to each limit of the machine, the "
        "effect of a 10 % change of each parameter, and the single changes that shorten it.",
    .more =
        "Every parameter and every change is named as a KEY=VALUE: `rehearse run SCENARIO --set KEY=VALUE` gives the "
        "same iteration. The shares of parameters add up to 100 % if the step scales with all of them.",
    .example =
        "  rehearse explain scenarios/gpt3-175b-1024xa100.yaml\n"
        "  rehearse explain scenarios/llama3-70b-64xh100.yaml --only sensitivity --format csv\n"
        "  rehearse explain scenarios/gpt-7.5b-zero-64xv100.yaml --only advice --all\n",
    .takes_set = true,
    .takes_long = true};

// Adds the uncertainty of numbers that were fitted to training runs.
void mark_fitted(explore::Sensitivities& found, const scenario::Scenario& scenario) {
  if (!scenario.concrete) return;
  for (const auto& constant : published::read_constants())
    if (constant.acts_on(scenario.concrete->cluster.gpu.name, scenario.concrete->framework.name))
      for (auto& row : found.all)
        if (row.key == constant.key) row.width = constant.width;
}

}  // namespace

int run_explain(Session& session, const Arguments& arguments) {
  std::vector<std::string> only;
  std::string jobs_given;
  report::ExplainOptions options;
  unsigned top = static_cast<unsigned>(options.top);
  PageOptions pages;
  const OptionList own = with_page_options(
      {{"only",
        "PART",
        "critical-path, limits, sensitivity or advice; repeatable (default: all)",
        &only,
        false,
        {"critical-path", "limits", "sensitivity", "advice"}},
       {"top", "N", "how many changes to advise (default: 10)", &top},
       {"all", "", "also changes that do not fit or make the step longer, and parameters with little effect",
        &options.all},
       {"jobs", "N", "predictions at once (default: one per core)", &jobs_given}},
      pages, "draw where the time goes and what changes it",
      {"breakdown", "critical-path", "limits", "sensitivity", "advice"});
  CommonOptions common(session);
  const auto line = parse(kExplainText, own, arguments, common);
  if (!line) return 0;
  const auto& path =
      one_operand(kExplainText, *line, "a scenario file, for example scenarios/gpt3-175b-1024xa100.yaml");
  check_outputs(common, pages, {}, {path});
  const auto jobs = number_of_jobs(jobs_given);
  const auto asks = [&](const char* part) {
    return only.empty() || std::find(only.begin(), only.end(), part) != only.end();
  };
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    throw UserError(
        fmt::format("explain reads its scenario many times, and '{}' is no regular file; save it first", path));

  const Stoppable stoppable([&] { return session.stop(); });
  std::optional<Progress> progress(std::in_place, common, 1 + asks("sensitivity") + asks("advice"));
  progress->begin("predicting");
  const auto prediction = answer::predict(scenario::load(path, common.set, {}, session.files()));
  const explore::Asked asked{path, common.set, &prediction, &session.files()};
  const auto follow = [&](const char* what) {
    progress->begin(what);
    return [&](std::size_t done, std::size_t of) {
      session.go_on();
      progress->done(done, of);
    };
  };
  report::Explanation explanation;
  explanation.prediction = &prediction;
  if (asks("critical-path")) explanation.path = explore::path_words(prediction);
  if (asks("limits")) explanation.limits = explore::limits(prediction);
  if (asks("sensitivity")) {
    explanation.sensitivities = explore::sensitivities(asked, jobs, follow("numbers turned"));
    mark_fitted(*explanation.sensitivities, prediction.scenario());
  }
  if (asks("advice")) explanation.advised = explore::advise(asked, jobs, follow("changes predicted"));
  progress.reset();

  options.top = top, options.style = text_style(common);
  if (explanation.advised) explanation.chosen = report::advised(explanation, options);
  write_pages(common, pages,
              [&] { return report::explain_page(explanation, as_asked(session, "explain", arguments, path)); });
  emit_report(common, {.text = [&] { return report::explain_text(explanation, options); },
                       .json = [&] { return report::explain_json(explanation); },
                       .csv = [&] { return report::explain_csv(explanation); }});
  return 0;
}

}  // namespace rehearsal::cli
