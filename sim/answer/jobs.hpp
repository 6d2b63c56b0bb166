// Several jobs at once on one cluster: each has nodes of its own and shares what lies between them.
#pragma once
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "scenario/jobs_file.hpp"

namespace rehearsal::answer {

struct SharedJob {
  Result alone;        // on its nodes, with nobody beside it
  std::string nodes;   // as given
  Time together;       // an iteration while the others run, on average
  int iterations = 0;  // that were averaged
};
struct SharedJobs {
  std::string name, file, engine;
  std::vector<SharedJob> jobs;
  std::vector<Contended> contended;  // the worst of what they share, all jobs together
  std::vector<std::string> warnings;
};

// All jobs start together and take step after step, until the one with the longest step has taken three.
SharedJobs predict(const scenario::Jobs& jobs);

}  // namespace rehearsal::answer
