// The same step with other numbers: works are priced again and the graph is reused, if the new numbers leave it
// unchanged. For hundreds of small changes of one scenario (explore/sensitivity.hpp): most of the time of a prediction
// of a large cluster goes into finding equal ranks.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "base/fingerprint.hpp"
#include "graph/work.hpp"

namespace rehearsal::answer {

class Repricing {
 public:
  explicit Repricing(const Result& base);  // must outlive this object

  // The iteration of predict(other), to the picosecond. Nothing if the graph of `other` differs or may differ: other
  // bytes or counts, a schedule that is searched anew because it depends on stage times, layers distributed by stage
  // times, links that are no longer equal. Throws what predict throws. Several threads may ask at a time.
  std::optional<Time> iteration(const scenario::Scenario& other) const;

  // What the programs of the pipeline ranks follow from, as far as a number of the machine can reach it.
  struct Stages {
    std::vector<graph::Work> works;
    std::vector<std::int64_t> layers;
    std::vector<double> activation, weight_hold;  // of each stage
    Fingerprint orders;                           // of all ranks, and how far their messages go
    friend bool operator==(const Stages&, const Stages&) = default;
  };

 private:
  bool same_programs(const scenario::Scenario& other) const;

  const Result& base_;
  Stages stages_;
  std::string programs_;  // digest of the pipeline ranks without their surroundings; empty: repricing is impossible
  std::unique_ptr<backend::Session> simulator_;
};

}  // namespace rehearsal::answer
