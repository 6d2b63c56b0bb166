// `compare` for people (text), for programs (JSON, contract section 2) and for tables (CSV).
//
// Variants may differ in batch, so they are ranked by time per sequence (per micro-batch where times are given).
// Memory: what the device holds (given pipelines: the unit of the scenario, or forwards held where it has no memory).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "answer/predict.hpp"
#include "base/error.hpp"

namespace rehearsal::report {

struct CompareRow {
  std::string file;
  std::vector<std::pair<std::string, std::string>> set;  // what this variant sets
  std::vector<Diagnostic> errors;                        // not empty: the variant is wrong, and the rest is empty

  std::optional<answer::Prediction> answer;  // brief
  double time_per_item = 0;                  // seconds per sequence or micro-batch
  double memory = 0;                         // what is weighed against time
  bool abstract = false;
  // Given pipelines: the most stages that a rank holds parameters of (1F1B: 1, DualPipe: 2), and the most forwards of
  // one stage that a rank holds until their input gradients.
  std::uint32_t stages_held = 0;
  std::int64_t in_flight = 0;

  // Set by rank_rows.
  double relative = 0;  // time per item over that of the best
  bool best = false;    // least time per item of those that fit (of all, if none fits)
  bool pareto = false;  // no variant is better in time or memory without being worse in the other
};

// The numbers of one variant. `in_flight` as in CompareRow.
CompareRow compare_row(answer::Prediction prediction, std::int64_t in_flight);

void rank_rows(std::span<CompareRow> rows);

// The keys that vary with their values, as given.
using Varied = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct CompareTextOptions {
  bool color = false;
  bool warnings = true;
};
std::string compare_text(std::span<const CompareRow> rows, const CompareTextOptions& options);
std::string compare_json(const Varied& varied, std::span<const CompareRow> rows, const std::string& version);
std::string compare_csv(std::span<const CompareRow> rows);

}  // namespace rehearsal::report
