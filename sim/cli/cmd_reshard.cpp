// rehearse reshard: moves a tensor from one mesh of devices to another (contract, section 6).
#include <fmt/format.h>

#include <optional>

#include "base/error.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/performer.hpp"
#include "cli/performing.hpp"
#include "cli/progress.hpp"
#include "lower/resharded.hpp"
#include "report/pages.hpp"
#include "scenario/reshard_file.hpp"

namespace rehearsal::cli {
namespace {

CommandText reshard_text() {
  std::string planners = "Planners:\n";
  for (const auto& [name, planner] : reshard::registry())
    planners += fmt::format("  {:<13} {}\n", name, planner.summary);
  return {
      .name = "reshard",
      .operands = "FILE [OPTIONS]\n       rehearse reshard --compare FILE... [OPTIONS]",
      .summary = "Plans how to move a tensor from one mesh of devices to another: who sends what, and when.",
      .more =
          "FILE (YAML or JSON) names 'source', 'destination' (mesh and spec) and 'tensor', or lists 'tasks';\n"
          "scenarios/reshard/README.md explains its keys.\n"
          "Makespan, start and end count elements over one NIC; time_s includes latency, chunks and NVLink.\n"
          "With --backend the messages of the plan are sent for real, by one rank per device: 'rehearse hosts' makes\n"
          "hosts whose NICs have a rate.\n\n" +
          planners,
      .example =
          "  rehearse reshard scenarios/reshard/case4.yaml\n"
          "  rehearse reshard scenarios/reshard/case9.yaml --set planner=greedy --format json\n"
          "  rehearse reshard --compare scenarios/reshard/*.yaml\n",
      .takes_set = true,
      .takes_long = true};
}

reshard::Question load(const std::string& path, const CommonOptions& common) {
  auto question = scenario::load_reshard(path, common.set, common.session.files());
  warn(common, question.warnings);
  return question;
}

int compare(const CommandLine& line, const CommonOptions& common) {
  if (line.operands.empty()) throw UserError("reshard --compare: name at least one file");
  // `best` last: its lower bound is the highest.
  report::Comparison all;
  for (const auto& name : reshard::registry().names())
    if (name != "best") all.planners.push_back(name);
  all.planners.emplace_back("best");
  for (const auto& path : line.operands) {
    auto question = load(path, common);
    question.split = false;  // the other planners send tasks whole
    auto& row = all.rows.emplace_back();
    row.name = question.name;
    for (const auto& planner : all.planners) {
      question.planner = planner;
      const auto plan = reshard::answer(question).plan;
      row.makespans.emplace_back(planner, plan.makespan);
      row.lower_bound = plan.lower_bound, row.optimal = plan.optimal();
    }
  }
  emit_report(common, {.text = [&] { return report::to_text(all, text_style(common)); },
                       .json = [&] { return report::planners_answer().json_text(all); },
                       .csv = [&] { return report::to_csv(all); }});
  return 0;
}

std::optional<explore::Performed> perform_plan(const AlonePerforming& o, const reshard::Question& question,
                                               const reshard::Answer& answer, const Arguments& arguments,
                                               const CommonOptions& common) {
  const auto backend = open_backend(o.backend, "reshard", arguments);
  if (backend->devices() > 0) throw UserError("plans were never sent between GPUs; use --backend mpi or loopback");
  return perform(o, *backend, lower::resharded(question, answer), answer.seconds, {}, {}, common);
}

}  // namespace

int run_reshard(Session& session, const Arguments& arguments) {
  const CommandText text = reshard_text();
  CommonOptions common(session);
  bool comparing = false;
  PageOptions pages;
  AlonePerforming performing;
  OptionList own{{"compare", "", "compare the makespans of all planners, one row per file", &comparing}};
  for (auto& option : alone_options(performing, "the plan")) own.push_back(std::move(option));
  own = with_page_options(std::move(own), pages, "draw what every NIC does as a picture");
  const auto line = parse(text, own, arguments, common);
  if (!line) return 0;
  check(*line, performing);
  if (comparing && line->has("backend")) throw UserError("--compare performs nothing; leave --backend out");
  if (comparing && line->has("svg")) throw UserError("--compare draws no picture; leave --svg out");
  if (comparing && line->has("html")) throw UserError("--compare makes no page; leave --html out");
  check_outputs(common, page_outputs(pages), line->operands);
  if (comparing) return compare(*line, common);

  const auto question = load(one_operand(text, *line, "a file"), common);
  const auto result = [&] {
    Progress progress(common);
    progress.begin("planning");
    return reshard::answer(question);
  }();
  std::optional<explore::Performed> done;
  std::optional<report::PerformedAlone> performed;
  if (!performing.backend.empty()) {
    done = perform_plan(performing, question, result, arguments, common);
    if (!done) return 0;
    performed.emplace(report::PerformedAlone{done->timeline, result.seconds});
  }
  const report::Planned planned{question, result, performed ? &*performed : nullptr};
  write_pages(common, pages, [&] {
    return report::reshard_page(planned, as_asked(session, "reshard", arguments, line->operands.front()));
  });
  emit_report(common, {.text = [&] { return report::to_text(planned, text_style(common)); },
                       .json = [&] { return report::reshard_answer().json_text(planned); },
                       .csv = [&] { return report::to_csv(result); }});
  return 0;
}

}  // namespace rehearsal::cli
