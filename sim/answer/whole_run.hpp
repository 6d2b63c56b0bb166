// The training run of a scenario, computed from its predicted step.
#pragma once
#include "answer/lowered_job.hpp"
#include "answer/summary.hpp"

namespace rehearsal::answer {

// The machine of a scenario with a job, without step times.
job::Step job_step(const scenario::Scenario& scenario);
// For a scenario with a job. Throws UserError as job::whole_run does.
job::WholeRun whole_run(const LoweredJob& lowered, const Summary& summary);

}  // namespace rehearsal::answer
