// rehearse plan: the best layout for a model on a cluster.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cli/numbers.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/progress.hpp"
#include "page/layout.hpp"
#include "report/pages.hpp"
#include "search/search.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kPlanText{
    .name = "plan",
    .operands = "SCENARIO",
    .summary =
        "Searches for the best layout and schedule for the model, cluster and batch of a scenario, and proves that no\n"
        "other in its space is faster.",
    .more =
        "The scenario's section 'plan' says what may be chosen, each key a value, a list or auto (all that divide):\n"
        "  plan: {tensor: [1, 2, 4, 8], pipeline: auto, schedules: [1f1b, zb-h1], objective: time, margin: 5%}\n"
        "keys: tensor context pipeline data expert chunks micro schedules zero recompute sequence offload framework\n"
        "gpus nodes objective deadline budget margin. Those that are left out are auto, within what the scenario's\n"
        "framework supports. Candidates for the best are predicted as 'run' does, with contention; their order and "
        "the\n"
        "proof are about these predictions. With a 'job', each layout has days, GPU-hours, cost and goodput: "
        "'objective:\n"
        "cost' looks for the cheapest run, 'deadline: 30d' and 'budget: 1M' exclude what takes longer or costs more.\n"
        "Ctrl-C and --time-limit end with the best so far, and say how much better the optimum could be.\n"
        "Exit status 1 when nothing fits, or nothing keeps to the limits; 2 when the space is empty.",
    .example =
        "  rehearse plan scenarios/llama3-8b-dgx-h100.yaml\n"
        "  rehearse plan scenarios/llama3-8b-dgx-h100.yaml --set 'plan={zero: [0, 1], framework: [megatron-2025, "
        "titan-2025]}'\n"
        "  rehearse plan scenarios/llama3-8b-dgx-h100.yaml --set 'job={tokens: 1T, gpu_hour: 2.5, currency: USD}' \\\n"
        "    --set 'plan={zero: 1, schedules: [1f1b], nodes: [1, 2, 4], objective: cost, deadline: 60d}'\n"
        "  rehearse plan scenarios/plan/gpt3-175b-1024xa100.yaml --time-limit 1s --format json\n",
    .takes_set = true};

std::string progress_line(const search::Counts& c, std::optional<Time> best) {
  return fmt::format("{} layouts, {} priced, {} of them in full, {} do not fit{}", page::grouped(c.layouts),
                     page::grouped(c.priced), page::grouped(c.simulated), page::grouped(c.cut_memory),
                     best ? ", best " + show(*best) : "");
}

void save(const CommonOptions& common, const std::string& folder, const search::Space& space,
          const search::Outcome& outcome) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw UserError(fmt::format("--save {}: the folder cannot be made: {}", folder, problem.message()));
  for (std::size_t i = 0; i < outcome.top.size(); ++i) {
    auto sets = space.file().sets;
    for (const auto& [key, value] : space.sets(outcome.top[i].layout)) sets.push_back(key + "=" + value);
    write_file(common, (std::filesystem::path(folder) / fmt::format("plan-{:02}.yaml", i + 1)).string(),
               scenario::standalone(space.file().path, sets, *space.file().files));
  }
}

}  // namespace

int run_plan(Session& session, const Arguments& arguments) {
  std::string jobs, limit, folder;
  PageOptions pages;
  const OptionList own = with_page_options(
      {{"time-limit", "T", "stop after this time, such as 30s, with the best so far (default: none)", &limit},
       {"jobs", "N", "threads (default: one per core); the answer is the same for any number", &jobs},
       {"save", "DIR", "write the best ones as scenario files", &folder}},
      pages, "draw the best and what they are better than", {"time", "pareto"});
  CommonOptions common(session);
  const auto line = parse(kPlanText, own, arguments, common);
  if (!line) return 0;
  const auto& path = one_operand(kPlanText, *line, "a scenario file");
  check_page_options(pages);
  check_outputs(common, page_outputs(pages), {path});
  search::Options options;
  options.threads = number_of_jobs(jobs);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::optional<Clock::time_point> until;
  if (!limit.empty()) until = begin + std::chrono::nanoseconds(parse_time(limit).count() / 1000);

  const MayStop stopping(session);
  const search::Space space(scenario::load_plan(path, common.set, session.files()));
  search::Outcome outcome;
  {
    Progress progress(common);
    options.go_on = [&](const search::Counts& counts, std::optional<Time> best) {
      if (progress.due()) progress.say(progress_line(counts, best));
      return !session.stop() && (!until || Clock::now() < *until);
    };
    outcome = search::search(space, options);
  }
  const report::Plan plan{space, outcome};
  write_pages(common, pages, [&] { return report::plan_page(plan, as_asked(session, "plan", arguments, path)); });
  emit_report(common, {.text = [&] { return report::plan_text(plan, text_style(common)); },
                       .json = [&] { return report::plan_answer().json_text(plan); },
                       .csv = [&] { return report::plan_csv(plan); }});
  if (!folder.empty()) save(common, folder, space, outcome);
  return outcome.top.empty() ? 1 : 0;
}

}  // namespace rehearsal::cli
