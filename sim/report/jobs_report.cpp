#include "report/jobs_report.hpp"

#include <fmt/format.h>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

using namespace page;

std::string jobs_text(const answer::SharedJobs& jobs, const page::TextStyle& style) {
  const Paint paint{style.color};
  std::string text = paint.bold(jobs.name) + "\n\n";
  std::vector<std::vector<std::string>> rows{{"job", "nodes", "GPUs", "alone", "together", "longer", "steps"}};
  for (const auto& job : jobs.jobs) {
    const auto& s = job.alone.summary;
    rows.push_back({s.name, job.nodes, std::to_string(s.gpus), show(s.iteration), show(job.together),
                    fmt::format("{:.2f} %", 100 * (job.together / s.iteration - 1)), std::to_string(job.iterations)});
  }
  text += table(rows, paint, style.width, {true, true});
  text += paint.dim(
      fmt::format("sim backend, {} engine; steps: over how many the time together is the mean\n", jobs.engine));
  if (!jobs.contended.empty()) {
    text += "\n" + paint.bold("What fell short, all jobs together") + "\n";
    for (const auto& r : jobs.contended)
      text += fmt::format("  {}{}: {} lost, busy {:.1f} %\n", r.name,
                          r.count > 1 ? fmt::format(" (one of {} alike)", r.count) : "", show(r.slowed), 100 * r.busy);
  }
  return fit(text + notes("Warnings", jobs.warnings, style.width, paint), style.width);
}

std::string jobs_json(const answer::SharedJobs& jobs) {
  Json list = Json::array();
  for (const auto& job : jobs.jobs)
    list.push_back({{"nodes", job.nodes},
                    {"iteration_s", to_seconds(job.together)},
                    {"alone_s", to_seconds(job.alone.summary.iteration)},
                    {"slowdown", job.together / job.alone.summary.iteration},
                    {"iterations", job.iterations},
                    {"alone", to_json(job.alone)}});
  Json contended = Json::array();
  for (const auto& r : jobs.contended)
    contended.push_back(
        {{"resource", r.name}, {"count", r.count}, {"slowed_s", to_seconds(r.slowed)}, {"busy_share", r.busy}});
  const Json json = {{"rehearsal", {{"version", program_version()}, {"backend", "sim"}, {"engine", jobs.engine}}},
                     {"scenario", {{"name", jobs.name}, {"file", jobs.file}}},
                     {"jobs", list},
                     {"contention", contended},
                     {"warnings", jobs.warnings}};
  return json.dump(2) + "\n";
}

}  // namespace rehearsal::report
