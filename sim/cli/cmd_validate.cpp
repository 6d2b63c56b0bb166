// rehearse validate: writes down a prediction, performs the run, then compares both; or compares with traces of a run.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/sha256.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "cli/performer.hpp"
#include "cli/performing.hpp"
#include "cli/validate_against.hpp"
#include "cli/validate_log.hpp"
#include "cli/validate_traces.hpp"
#include "report/pages.hpp"
#include "report/perfetto.hpp"
#include "report/timeline_file.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kValidateText{
    .name = "validate",
    .operands =
        "SCENARIO --backend NAME | SCENARIO --trace FILE... | [SCENARIO] --log FILE... | --against TABLE.csv...",
    .summary =
        "Predicts a scenario, writes the prediction down, performs the scenario, and compares task by task.\n"
        "With --trace and no backend, compares with traces of the run: JSON of PyTorch's profiler, one file per rank,\n"
        "or databases of Nsight Systems. With --log, compares with the steps of a training log, whose arguments are "
        "the\n"
        "scenario unless one is named. With --against, predicts every run of a table of published runs and scores the\n"
        "predictions.",
    .more =
        "Errors are predicted / measured - 1: negative where the real run took longer. The prediction is complete "
        "before\n"
        "the run begins, and the report holds its SHA-256; --prediction writes it to a file. With --backend, --trace\n"
        "names a file to write: prediction and measurement, one track beside the other. Exit status 1 when the median\n"
        "iteration is off by more than\n"
        "--tolerance\n"
        "(--against: the mean of the tables' mean errors). Columns of a table: see docs/reference.md.",
    .example =
        "  rehearse validate scenarios/teaching-1f1b-8-stages.yaml --backend loopback --iterations 1 --warmup 0\n"
        "  rehearse validate scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml --backend mpi --tolerance 5%\n"
        "  rehearse validate tests/traces/two_stages.yaml --trace "
        "tests/traces/two_stages_rank_0.json tests/traces/two_stages_rank_1.json\n"
        "  rehearse validate --log tests/interchange/megatron-forms/llama3-8b.log --cluster dgx-h100\n"
        "  rehearse validate --against tests/fidelity/training_runs.csv --html published.html",
    .takes_set = true,
    .takes_long = true};

double parse_tolerance(const std::string& text) {
  const auto wrong = [&] { return UserError(fmt::format("--tolerance is '{}'; give a share such as 5%", text)); };
  if (!text.ends_with('%')) throw wrong();
  try {
    const double percent = parse_number(text.substr(0, text.size() - 1));
    if (percent < 0) throw wrong();
    return percent / 100;
  } catch (const UserError&) {
    throw wrong();
  }
}

// An option of another form of the command has no effect, and is an error rather than ignored.
void take_none(const CommandLine& line, const char* form, std::initializer_list<const OptionList*> others) {
  for (const auto* options : others)
    for (const auto& option : *options)
      if (line.has(option.name)) throw UserError(fmt::format("validate {} takes no --{}", form, option.name));
}

struct Written {
  std::string file, sha256;
};
Written write_prediction(const CommonOptions& common, const answer::Result& prediction, std::string file) {
  std::string text;
  report::PredictionSource source;
  if (const auto& scenario = prediction.scenario(); scenario.concrete) {
    const auto& c = *scenario.concrete;
    source.cluster = c.cluster.name;
    if (c.profile) source.profile = c.profile->name, source.profile_sha256 = c.profile->digest;
  }
  report::write_prediction(prediction, source, [&](std::string_view piece) { text += piece; });
  if (!file.empty()) write_file(common, file, text);
  return {file, sha256(text)};
}

}  // namespace

int run_validate(Session& session, const Arguments& arguments) {
  PerformingOptions options;
  std::string tolerance, prediction;
  AgainstOptions against;
  LogOptions logs;
  PageOptions pages;
  std::vector<std::string> traces;
  OptionList own = performing_options(options);
  for (auto& option : own)
    if (option.name == "trace")
      option = {"trace", "FILE", "traces of the run to compare with; with --backend, the file to write one to", &traces,
                true};
  own.insert(own.end(), {{"tolerance", "P%", "exit with status 1 if the median iteration is further off", &tolerance},
                         {"prediction", "FILE", "write the prediction to FILE before the run", &prediction}});
  OptionList performing_alone = own;
  std::erase_if(performing_alone, [](const Option& option) { return option.name == "tolerance"; });
  own = with_page_options(std::move(own), pages, "draw predicted beside measured",
                          {"scatter", "breakdown", "timeline", "memory", "both-timelines", "parts"});
  const OptionList of_pages = with_page_options({}, pages, "", {});
  const auto of_tables = against_options(against), of_logs = log_options(logs);
  for (const auto* more : {&of_tables, &of_logs}) own.insert(own.end(), more->begin(), more->end());
  CommonOptions common(session);
  const auto line = parse(kValidateText, own, arguments, common);
  if (!line) return 0;
  if (!against.tables.empty()) {
    if (line->has("tolerance")) against.tolerance = parse_tolerance(tolerance);
    if (!line->operands.empty() || line->has("backend"))
      throw UserError("validate --against takes tables only, no scenario and no --backend");
    take_none(*line, "--against", {&performing_alone, &of_logs});
    check_page_options(pages);
    return validate_against(common, against, pages);
  }
  if (!logs.logs.empty()) {
    if (line->has("backend")) throw UserError("validate --log compares with a run that has been; leave --backend out");
    take_none(*line, "--log", {&performing_alone, &of_pages, &of_tables});
    return validate_log(common, logs,
                        line->operands.empty() ? "" : one_operand(kValidateText, *line, "a scenario file"),
                        line->has("tolerance") ? std::optional(parse_tolerance(tolerance)) : std::nullopt);
  }
  take_none(*line, traces.empty() || line->has("backend") ? "--backend" : "--trace", {&of_tables, &of_logs});
  const auto& path = one_operand(kValidateText, *line, "a scenario file");
  std::optional<double> within;
  if (line->has("tolerance")) within = parse_tolerance(tolerance);
  check_page_options(pages);
  if (!traces.empty() && !line->has("backend")) {
    for (const auto& other : performing_alone)
      if (other.name != "trace" && line->has(other.name))
        throw UserError(fmt::format("validate --trace performs nothing: --{} needs --backend", other.name));
    return validate_traces(common, path, traces, within, pages, arguments);
  }
  if (traces.size() > 1) throw UserError("validate --backend writes one trace: give --trace one file");
  if (!traces.empty()) options.trace = traces.front();
  auto outputs = page_outputs(pages);
  outputs.insert(outputs.end(),
                 {{"--prediction", prediction}, {"--timeline", options.timeline}, {"--trace", options.trace}});
  check_outputs(common, outputs, {path});

  const auto performing = begin_performing("validate", arguments, path, common, options);
  const auto& scenario = performing.what.scenario;
  const auto& predicted = performing.predicted;
  Written written;
  if (performer().reports(options.backend)) written = write_prediction(common, predicted, prediction);
  auto measured = perform(performing, common);
  if (!performer().reports(options.backend)) return 0;

  auto run = answer::performed(predicted, std::move(measured.timeline));
  run.measured->collectives = measured.collectives, run.measured->links = std::move(measured.links);
  if (performing.options.compute == backend::Compute::real && scenario.concrete->cluster.name != "this-machine")
    run.warnings.push_back(
        fmt::format("predicted for {}, performed on this machine: the difference is that of the machines; "
                    "use --set cluster=this-machine",
                    scenario.concrete->cluster.name));
  const auto& graph = run.graph();
  const auto comparison =
      timeline::compare(graph, predicted.timeline, run.timeline, explore::sampling(scenario, graph.works()));
  const report::Validation validation{run, predicted.timeline, comparison, written.file, written.sha256, within};

  if (!options.trace.empty())
    write_streamed(common, options.trace,
                   [&](const auto& sink) { report::write_comparison_trace(run, predicted.timeline, sink); });
  if (!options.timeline.empty())
    write_streamed(common, options.timeline, [&](const auto& sink) { report::write_timeline(run, sink); });
  write_pages(common, pages,
              [&] { return report::validate_page(validation, as_asked(session, "validate", arguments, path)); });
  emit_report(common, {.text = [&] { return report::validate_text(validation, text_style(common)); },
                       .json = [&] { return report::validate_answer().json_text(validation); },
                       .csv = [&] { return report::validate_csv(validation); }});
  return validation.within_tolerance() ? 0 : 1;
}

}  // namespace rehearsal::cli
