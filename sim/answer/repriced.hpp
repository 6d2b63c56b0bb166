// The same step with other numbers: works are priced again and the graph is reused, if the new numbers leave it
// unchanged. For hundreds of small changes of one scenario (explore/sensitivity.hpp): most of the time of a prediction
// of a large cluster goes into finding equal ranks.
#pragma once
#include <optional>
#include <string>

#include "answer/predict.hpp"

namespace rehearsal::answer {

class Repricing {
 public:
  explicit Repricing(const Result& base);  // must outlive this object

  // The iteration of predict(other), to the picosecond. Nothing if the graph of `other` differs or may differ: other
  // bytes or counts, a schedule that is searched anew because it depends on stage times, layers distributed by stage
  // times, links that are no longer equal. Throws what predict throws.
  std::optional<Time> iteration(const scenario::Scenario& other) const;

 private:
  const Result& base_;
  std::string programs_;  // digest of the pipeline ranks without their surroundings; empty: repricing is impossible
};

}  // namespace rehearsal::answer
