// Reports `validate` as text, as JSON (that of `measure` plus the comparison) and as CSV (one line per class
// of tasks).
#pragma once
#include <optional>
#include <string>

#include "report/run_report.hpp"
#include "timeline/compare.hpp"

namespace rehearsal::report {

// Up to this many tasks, JSON holds the end times of all of them.
inline constexpr std::uint64_t kTaskEndsLimit = 100'000;

struct Validation {
  const Result& measured;
  const timeline::Timeline& predicted;  // of the same graph
  const timeline::Comparison& comparison;
  std::string prediction_file, prediction_sha256;  // made before the run; empty if it was not kept
  std::optional<double> tolerance;                 // share of the iteration; a larger error gives exit status 1

  bool within_tolerance() const;
};

const Shown<Validation>& validate_answer();
page::Table class_table(const Showing& shown, const Validation& validation);
std::string validate_text(const Validation& validation, const page::TextStyle& style);
std::string validate_csv(const Validation& validation);

}  // namespace rehearsal::report
