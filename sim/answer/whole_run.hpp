// The job of a scenario, from the step that was predicted.
#pragma once
#include "answer/question.hpp"
#include "answer/summary.hpp"

namespace rehearsal::answer {

// Of a scenario with a job. Throws UserError as job::whole_run does.
job::WholeRun whole_run(const Question& question, const Summary& summary);

}  // namespace rehearsal::answer
