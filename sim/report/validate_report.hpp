// `validate` for people (text), for programs (JSON: that of `measure` and the comparison) and for tables (CSV: one line
// per class of task).
#pragma once
#include <optional>
#include <string>

#include "report/run_report.hpp"
#include "timeline/compare.hpp"

namespace rehearsal::report {

// Up to this many tasks JSON holds the ends of all of them.
inline constexpr std::uint64_t kTaskEndsLimit = 100'000;

struct Validation {
  const Result& measured;
  const timeline::Timeline& predicted;  // of the same graph
  const timeline::Comparison& comparison;
  std::string prediction_file, prediction_sha256;  // made before the run; no file: it was not kept
  std::optional<double> tolerance;                 // share of the iteration; within it = no exit status 1

  bool within_tolerance() const;
};

std::string signed_share(double share);  // an error: "-4.1 %"
std::string validate_text(const Validation& validation, const page::TextStyle& style);
std::string validate_json(const Validation& validation, const std::string& version);
std::string validate_csv(const Validation& validation);

}  // namespace rehearsal::report
