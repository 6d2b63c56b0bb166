// How fast a job goes at a speed of its steps, for searches that ask it of many steps that differ in their time alone.
#pragma once
#include "job/goodput.hpp"
#include "job/whole_run.hpp"

namespace rehearsal::job {

class ThroughputModel {
 public:
  // Of the machine of `step`: its time, band and replicas are not used. Throws UserError as whole_run does.
  ThroughputModel(const Job& job, const Step& step);

  // What whole_run expects of steps of so many seconds, by so many replicas. Throws UserError where the job hardly
  // trains.
  Totals expected(double seconds, std::int64_t replicas) const;
  // No run of steps that take so long, or longer, takes or costs less; it grows with `seconds`, in proportion.
  Totals least(double seconds) const;

 private:
  Step at(double seconds, std::int64_t replicas) const;

  Job job_;
  Step step_;
  double rate_ = 1;  // seconds of the clock a useful second, at least
};

}  // namespace rehearsal::job
