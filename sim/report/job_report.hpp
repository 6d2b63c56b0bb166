// The whole training run, as text and JSON.
#pragma once
#include <string>

#include "job/whole_run.hpp"
#include "report/json.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

std::string job_text(const job::WholeRun& run, int width);  // lines below a heading
Shown<job::WholeRun> job_answer();

}  // namespace rehearsal::report
