// The speed of a job as a function of its step time, for searches over many steps that differ only in time.
#pragma once
#include "job/goodput.hpp"
#include "job/whole_run.hpp"

namespace rehearsal::job {

class ThroughputModel {
 public:
  // Uses the machine of `step`, not its time, band and replicas. Throws UserError as whole_run does.
  ThroughputModel(const Job& job, const Step& step);

  // The expected result of whole_run for this step time and number of replicas. Throws UserError if the job makes
  // hardly any progress.
  Totals expected(double seconds, std::int64_t replicas) const;
  // Lower bounds of time and cost for steps of at least this length; proportional to `seconds`.
  Totals least(double seconds) const;

 private:
  Step at(double seconds, std::int64_t replicas) const;

  Job job_;
  Step step_;
  double rate_ = 1;  // lower bound of wall-clock seconds per useful second
};

}  // namespace rehearsal::job
