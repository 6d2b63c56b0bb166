// The critical path in words: what the chain of tasks that decides the end of the step spends its time on, where, and
// which part of the machine it waits for meanwhile.
#pragma once
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::explore {

struct PathPiece {
  graph::Category category{};
  double share = 0;  // of the step
  Time time;
  std::string text;  // "computing forward passes on rank 0 (pipeline rank 0) and 127 like it: 71 % in matrix ..."
};

// Largest first; the shares sum to 1. Pieces of one category and pass on one rank are one, and so are those of
// ranks of which none stands out. Of a prediction with its timeline.
std::vector<PathPiece> path_words(const answer::Result& prediction);

}  // namespace rehearsal::explore
