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

Shown<answer::SharedJobs> jobs_answer() {
  using answer::SharedJob, answer::SharedJobs;
  const auto itself = [](auto& jobs) { return &jobs; };
  return Shown<SharedJobs>("Jobs that share a cluster.")
      .group("rehearsal",
             Shown<SharedJobs>("Who answers.")
                 .figure("version", [](auto&) { return program_version(); })
                 .figure("backend", [](auto&) { return "sim"; })
                 .figure("engine", &SharedJobs::engine),
             itself)
      .group("scenario", Shown<SharedJobs>().figure("name", &SharedJobs::name).figure("file", &SharedJobs::file),
             itself)
      .rows("jobs",
            Shown<SharedJob>()
                .figure("nodes", Unit::none, "as given", &SharedJob::nodes)
                .figure("iteration_s", Unit::seconds, "mean, with the others", &SharedJob::together)
                .figure("alone_s", Unit::seconds, "", [](auto& j) { return j.alone.summary.iteration; })
                .figure("slowdown", Unit::ratio, "", [](auto& j) { return j.together / j.alone.summary.iteration; })
                .figure("iterations", Unit::none, "of the mean", &SharedJob::iterations)
                .group("alone", run_answer(), [](auto& j) { return &j.alone; }),
            &SharedJobs::jobs)
      .rows("contention", contended_resource(), &SharedJobs::contended)
      .figure("warnings", &SharedJobs::warnings);
}

}  // namespace rehearsal::report
