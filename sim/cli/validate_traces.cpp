// rehearse validate --trace: a prediction beside traces of profilers. Performs nothing.
#include "cli/validate_traces.hpp"

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "cli/output_files.hpp"
#include "cli/progress.hpp"
#include "report/trace_page.hpp"
#include "report/trace_report.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::cli {

int validate_traces(const CommonOptions& common, const std::string& scenario, const std::vector<std::string>& traces,
                    std::optional<double> within, const PageOptions& pages, const Arguments& arguments) {
  auto inputs = traces;
  inputs.push_back(scenario);
  check_outputs(common, page_outputs(pages), inputs);
  const auto& files = common.session.files();
  const auto asked = scenario::load(scenario, common.set, {}, files);
  const traces::KernelClasses classes(files);
  std::optional<Progress> progress(std::in_place, common, 3);
  progress->begin("MB of traces");
  const auto measured = traces::read(
      traces, classes, [&](std::size_t done, std::size_t of) { progress->done(done / kMegabyte, of / kMegabyte); });
  progress->begin("predicting");
  const auto predicted = answer::predict(asked);
  progress->begin("comparing");
  auto report = report::beside(predicted, measured, classes);
  progress.reset();
  report.tolerance = within;
  write_pages(common, pages,
              [&] { return report::trace_page(report, as_asked(common.session, "validate", arguments, scenario)); });
  emit_report(common, {.text = [&] { return report::trace_text(report, text_style(common)); },
                       .json = [&] { return report::trace_json(report); },
                       .csv = [&] { return report::trace_csv(report); }});
  return report.within_tolerance() ? 0 : 1;
}

}  // namespace rehearsal::cli
