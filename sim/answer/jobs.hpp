// Several jobs at once on one cluster: each has its own nodes and shares the network between them.
#pragma once
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "scenario/jobs_file.hpp"

namespace rehearsal::answer {

struct SharedJob {
  Result alone;        // on its nodes, with no other job running
  std::string nodes;   // as given
  Time together;       // mean iteration while the other jobs run
  int iterations = 0;  // iterations averaged
};
struct SharedJobs {
  std::string name, file, engine;
  std::vector<SharedJob> jobs;
  std::vector<Contended> contended;  // the most contended shared resources, all jobs together
  std::vector<std::string> warnings;
};

// All jobs start together and repeat their steps until the job with the longest step has finished three.
SharedJobs predict(const scenario::Jobs& jobs);

}  // namespace rehearsal::answer
