// rehearse plan: the best layout for a model on a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/stopping.hpp"
#include "cli/exported.hpp"
#include "cli/numbers.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/progress.hpp"
#include "page/layout.hpp"
#include "published/constants.hpp"
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
        "gpus nodes clusters objective deadline budget margin. Those that are left out are auto, within what the\n"
        "scenario's framework supports. Candidates for the best are predicted as 'run' does, with contention; their\n"
        "order and the proof are about these predictions. With a 'job', each layout has days, GPU-hours, cost and\n"
        "goodput: 'objective: cost' looks for the cheapest run, 'objective: energy' for that of the least energy;\n"
        "'deadline: 30d' and 'budget: 1M' exclude what takes longer or costs more.\n"
        "'clusters' are machines to choose from, each with its sizes (auto: all that some layout divides), price and\n"
        "frameworks: plan: {clusters: [{use: dgx-h100, nodes: auto, gpu_hour: 2.1}, {use: b200-sxm, gpu_hour: 4}]}\n"
        "The report says which of the best the prediction cannot tell apart, and which measurement would. --with\n"
        "searches with what was measured, and --emit writes the best layout as a file of its trainer.\n"
        "Ctrl-C and --time-limit end with the best so far, and say how much better the optimum could be.\n"
        "Exit status 1 when nothing fits, or nothing keeps to the limits; 2 when the space is empty.",
    .example =
        "  rehearse plan scenarios/llama3-8b-dgx-h100.yaml\n"
        "  rehearse plan scenarios/llama3-8b-dgx-h100.yaml --set 'plan={zero: [0, 1], framework: [megatron-2025, "
        "titan-2025]}'\n"
        "  rehearse plan scenarios/llama3-8b-dgx-h100.yaml --set 'job={tokens: 1T, gpu_hour: 2.5, currency: USD}' \\\n"
        "    --set 'plan={zero: 1, schedules: [1f1b], nodes: [1, 2, 4], objective: cost, deadline: 60d}'\n"
        "  rehearse plan scenarios/plan/llama3-70b-which-cluster.yaml\n"
        "  rehearse plan scenarios/plan/gpt3-175b-1024xa100.yaml --time-limit 1s --format json\n",
    .takes_set = true,
    .takes_long = true};

// What the search knows between two rounds.
void tell(Progress& progress, const search::Standing& now) {
  const auto& counts = now.counts;
  const auto percent = [&](std::uint64_t layouts) { return 100 * double(layouts) / double(counts.layouts); };
  std::string note;
  if (now.best) note = fmt::format("best {}", show(*now.best));
  if (now.gap) note += fmt::format(", gap {:.1f} %", 100 * *now.gap);
  note += fmt::format("{}{:.0f} % ruled out, {:.0f} % bounded, {} priced of {} layouts", note.empty() ? "" : "; ",
                      percent(now.ruled_out()), percent(now.bounded), page::grouped(counts.priced),
                      page::grouped(counts.layouts));
  progress.note(std::move(note), {{"layouts", counts.layouts},
                                  {"ruled_out", now.ruled_out()},
                                  {"bounded", now.bounded},
                                  {"priced", counts.priced},
                                  {"simulated", counts.simulated},
                                  {"best_s", now.best ? Json(to_seconds(*now.best)) : Json()},
                                  {"gap", now.gap}});
}

// The file with the keys of a layout.
std::vector<std::string> sets_of(const search::Space& space, const search::Layout& layout) {
  auto sets = space.file().sets;
  for (const auto& [key, value] : space.sets(layout)) sets.push_back(key + "=" + value);
  return sets;
}

void save(const CommonOptions& common, const std::string& folder, const search::Space& space,
          const search::Outcome& outcome) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw UserError(fmt::format("--save {}: the folder cannot be made: {}", folder, problem.message()));
  for (std::size_t i = 0; i < outcome.top.size(); ++i) {
    write_file(common, (std::filesystem::path(folder) / fmt::format("plan-{:02}.yaml", i + 1)).string(),
               scenario::standalone(space.file().path, sets_of(space, outcome.top[i].layout), *space.file().files));
  }
}

// What would tell the best from those whose bands overlap with its own. Throws Stopped; `all` has what is known then.
void compare_ties(const search::Space& space, const search::Outcome& outcome, unsigned jobs,
                  std::vector<report::Tie>& all) {
  const auto others = report::contenders(space, outcome);
  if (others.empty()) return;
  const auto constants = published::read_constants(*space.file().files);
  const auto with_graph = [&](const search::Found& found) {
    return answer::predict(scenario::load(space.file().path, sets_of(space, found.layout), {}, *space.file().files));
  };
  const auto contender = [&](const search::Found& found, const answer::Result& prediction) {
    const auto& c = *prediction.scenario().concrete;
    const auto width = [&constants, gpu = c.cluster.gpu.name, framework = c.framework.name](const std::string& key) {
      double most = 0;
      for (const auto& constant : constants)
        if (constant.key == key && constant.acts_on(gpu, framework)) most = std::max(most, constant.width);
      return most;
    };
    const auto& file = space.file();
    return explore::Contender{{file.path, sets_of(space, found.layout), &prediction, file.files},
                              file.cluster_of(file.bases[found.layout.base]),
                              width};
  };
  const auto& best = outcome.top.front();
  const auto first = with_graph(best);
  for (const auto* other : others) {
    const auto second = with_graph(*other);
    all.push_back({other, explore::deciding(contender(best, first), contender(*other, second),
                                            report::behind(space, *other, best), jobs)});
  }
}

}  // namespace

int run_plan(Session& session, const Arguments& arguments) {
  std::string jobs, limit, folder, emit;
  std::vector<std::string> profiles;
  PageOptions pages;
  const OptionList own = with_page_options(
      {{"time-limit", "T", "stop after this time, such as 30s, with the best so far (default: none)", &limit},
       {"jobs", "N", "threads (default: one per core); the answer is the same for any number", &jobs},
       {"save", "DIR", "write the best ones as scenario files", &folder},
       {"with", "PROFILE", "what 'calibrate' measured, for the clusters that have this GPU; repeatable", &profiles},
       {"emit", "KIND", "write the best for a trainer, in place of the report", &emit, false, scenario_formats()}},
      pages, "draw the best and what they are better than", {"time", "pareto"});
  CommonOptions common(session);
  const auto line = parse(kPlanText, own, arguments, common);
  if (!line) return 0;
  const auto& path = one_operand(kPlanText, *line, "a scenario file");
  check_page_options(pages);
  check_outputs(common, page_outputs(pages), {path});
  if (!emit.empty() && common.format_given)
    throw UserError("plan --emit: the result has the form of that trainer; leave --format out");
  search::Options options;
  options.threads = number_of_jobs(jobs);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::optional<Clock::time_point> until;
  if (!limit.empty()) until = begin + std::chrono::nanoseconds(parse_time(limit).count() / 1000);

  const MayStop stopping(session);
  const auto ends = [&] { return session.stop() || (until && Clock::now() >= *until); };
  std::optional<Progress> progress(std::in_place, common, 0);
  progress->begin("listing layouts");
  const search::Space space = [&] {
    const Stoppable listing(ends);
    return search::Space(scenario::load_plan(path, common.set, session.files(), profiles));
  }();
  search::Outcome outcome;
  {
    std::optional<std::size_t> bounded;  // kin; fewer than before: another search, for the limit that cannot be met
    options.go_on = [&, searching = false](const search::Standing& now) mutable {
      if (now.bounded_kins < now.kins) {
        if (!bounded || now.bounded_kins < *bounded) progress->begin("families of layouts bounded"), searching = false;
        bounded = now.bounded_kins;
        progress->done(now.bounded_kins, now.kins);
      } else if (!searching) {
        std::optional<double> left;
        if (until) left = std::chrono::duration<double>(*until - Clock::now()).count();
        progress->begin("searching", 0, left), searching = true;
      }
      if (progress->due()) tell(*progress, now);
      return !ends();
    };
    outcome = search::search(space, options);
  }
  report::Plan plan{space, outcome};
  if (!outcome.stopped) try {
      const Stoppable comparing(ends);
      progress->begin("comparing the best");
      compare_ties(space, outcome, options.threads, plan.ties);
    } catch (const Stopped&) {
      plan.ties_stopped = true;
    }
  progress.reset();
  write_pages(common, pages, [&] { return report::plan_page(plan, as_asked(session, "plan", arguments, path)); });
  if (!folder.empty()) save(common, folder, space, outcome);
  if (!emit.empty()) {
    if (outcome.top.empty()) {
      warn(common, {"--emit: no layout to write; without it, plan says what is nearest"});
      return 1;
    }
    if (!common.quiet) session.write(Stream::err, report::headline(plan, text_style(common)));
    const auto scenario = scenario::load(path, sets_of(space, outcome.top.front().layout), {}, session.files());
    emit_exported(common, emit, scenario);
    return 0;
  }
  emit_report(common, {.text = [&] { return report::plan_text(plan, text_style(common)); },
                       .json = [&] { return report::plan_answer().json_text(plan); },
                       .csv = [&] { return report::plan_csv(plan); }});
  return outcome.top.empty() ? 1 : 0;
}

}  // namespace rehearsal::cli
