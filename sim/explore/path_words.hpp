// The critical path in words: the activities on the chain of tasks that determines the end of the step, on which ranks,
// and the part of the machine that each waits for.
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

// Largest first; the shares sum to 1. Pieces of one category and pass are merged per rank, and over ranks if none of
// them stands out. Needs a prediction with its timeline.
std::vector<PathPiece> path_words(const answer::Result& prediction);

}  // namespace rehearsal::explore
