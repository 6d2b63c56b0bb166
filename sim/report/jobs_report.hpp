// Reports several jobs on one cluster, as text and JSON.
#pragma once
#include <string>

#include "answer/jobs.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

std::string jobs_text(const answer::SharedJobs& jobs, const page::TextStyle& style);
// {"rehearsal", "scenario", "jobs": [{"nodes", "iteration_s", "alone_s", "slowdown", "iterations", "alone": {...}}],
// "contention": [...]}
std::string jobs_json(const answer::SharedJobs& jobs);

}  // namespace rehearsal::report
