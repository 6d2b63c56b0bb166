// Text, CSV and page of `validate --against`. Errors are predicted / measured - 1.
#pragma once
#include <string>
#include <vector>

#include "explore/ablation.hpp"
#include "page/layout.hpp"
#include "published/bands.hpp"
#include "report/answers.hpp"
#include "report/run_page.hpp"

namespace rehearsal::published {

using Predictions = std::vector<Prediction>;

// One line per table, then the mean of tables, and why rows are not judged; with `rows` every row first.
std::string against_text(const Predictions& predictions, bool rows, const page::TextStyle& style,
                         const std::vector<Coverage>& coverage = {});
const report::Shown<Predictions>& against_answer();
// The prediction of each row, without any measurement.
std::string forecast_csv(const Predictions& predictions);
std::string against_csv(const Predictions& predictions);  // one line per row

// Predicted against measured, the scores, every row.
page::Page against_page(const Predictions& predictions);

// Mean error per table with each effect left out, and the change.
struct Removal {
  const answer::Effect* effect;
  std::vector<Score> scores;
};
struct Budget {
  std::vector<Score> whole;
  std::vector<Removal> removals;
};
const report::Shown<Budget>& budget_answer();
std::string budget_text(const Budget& budget, const page::TextStyle& style);
std::string budget_csv(const Budget& budget);

// What `validate --against` answers, with and without --budget.
std::vector<report::AnswerOf> answers();

}  // namespace rehearsal::published
