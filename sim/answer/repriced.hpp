// The same step with other numbers: works are priced again and the graph stays, where other numbers make no other
// graph. What hundreds of small changes of one scenario are asked by (explore/sensitivity.hpp): most of a prediction of
// a large cluster is finding out who is next to whom.
#pragma once
#include <optional>
#include <string>

#include "answer/predict.hpp"

namespace rehearsal::answer {

class Repricing {
 public:
  explicit Repricing(const Result& base);  // which must outlive it

  // The iteration that predict(other) finds, to the picosecond. Nothing where the graph of `other` is another one, or
  // may be: bytes and counts that differ, a schedule that is searched by the times of stages and found anew, layers
  // dealt by them, links that no longer are alike. Throws what predict throws.
  std::optional<Time> iteration(const scenario::Scenario& other) const;

 private:
  const Result& base_;
  std::string programs_;  // digest of the pipeline ranks without what surrounds them; empty: nothing can be repriced
};

}  // namespace rehearsal::answer
