// The same step with other numbers: works are priced again and the graph is reused, if the new numbers leave it
// unchanged. For hundreds of small changes of one scenario (explore/sensitivity.hpp): most of the time of a prediction
// of a large cluster goes into finding equal ranks.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "answer/predict.hpp"
#include "base/fingerprint.hpp"
#include "graph/work.hpp"
#include "lower/stage_transfers.hpp"

namespace rehearsal::answer {

class Repricing {
 public:
  explicit Repricing(const Result& base);  // must outlive this object

  // The iteration of predict(other), to the picosecond. Nothing if the structure of the graph differs or may differ:
  // other counts, a schedule that is searched anew because it depends on stage times, layers distributed by stage
  // times, links that are no longer equal. Throws what predict throws. Several threads may ask at a time.
  std::optional<Time> iteration(const scenario::Scenario& other) const;

  // What the programs of the pipeline ranks follow from, as far as a number of the machine can reach it.
  struct Stages {
    std::vector<graph::Work> works;
    std::vector<std::int64_t> layers;
    std::vector<double> activation, weight_hold;  // of each stage
    Fingerprint orders;                           // of all ranks, and how far their messages go
    struct Transfers {
      std::vector<lower::RankClass> roles;
      Fingerprint channels;  // between which ranks
      friend bool operator==(const Transfers&, const Transfers&) = default;
    } transfers;
    friend bool operator==(const Stages&, const Stages&) = default;
  };

 private:
  using Works = std::vector<graph::Work>;
  std::optional<Works> works_of(const scenario::Scenario& other) const;
  Time simulated(const backend::RunOptions& run) const;

  const Result& base_;
  Stages stages_;
  std::optional<graph::TaskGraph> programs_;     // the pipeline ranks without their surroundings
  std::unique_ptr<backend::Session> simulator_;  // none: repricing is impossible
  // What has been simulated: numbers that act through one price, such as a rate and its efficiency, ask for the same.
  mutable std::mutex mutex_;
  mutable std::unordered_map<Fingerprint, Time, Fingerprint::Hash> known_;
};

}  // namespace rehearsal::answer
