// What a scenario asks, in a few lines: model, machine, layout and schedule.
#pragma once
#include <string>

#include "answer/predict.hpp"

namespace rehearsal::report {

std::string question_words(const answer::Result& answer);

}  // namespace rehearsal::report
