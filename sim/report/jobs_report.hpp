// Reports several jobs on one cluster, as text and JSON.
#pragma once
#include <string>

#include "answer/jobs.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

std::string jobs_text(const answer::SharedJobs& jobs, const page::TextStyle& style);
Shown<answer::SharedJobs> jobs_answer();

}  // namespace rehearsal::report
