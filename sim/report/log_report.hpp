// `validate --log`: the steps of real runs, as their logs say them, beside what was predicted for the same scenario.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "interchange/log.hpp"
#include "page/page.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

struct LoggedRun {
  std::string file;
  interchange::Log log;
  interchange::SteadySteps measured;
  answer::Result predicted;

  double error() const { return to_seconds(predicted.summary.iteration) / measured.seconds - 1; }
  // Whether the measured step is within the band of the prediction; nothing without one.
  std::optional<bool> in_band() const;
};
struct LoggedRuns {
  std::vector<LoggedRun> runs;
  double mean_error() const;  // of the absolute errors
};

const Shown<LoggedRuns>& logged_answer();
std::string logged_text(const LoggedRuns& all, const page::TextStyle& style);
std::string logged_json(const LoggedRuns& all);
std::string logged_csv(const LoggedRuns& all);

}  // namespace rehearsal::report
