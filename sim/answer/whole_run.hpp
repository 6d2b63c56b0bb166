// The job of a scenario, from the step that was predicted.
#pragma once
#include "answer/lowered_job.hpp"
#include "answer/summary.hpp"

namespace rehearsal::answer {

// The machine of a scenario with a job; nothing of how long a step takes.
job::Step job_step(const scenario::Scenario& scenario);
// Of a scenario with a job. Throws UserError as job::whole_run does.
job::WholeRun whole_run(const LoweredJob& lowered, const Summary& summary);

}  // namespace rehearsal::answer
