// Text, CSV and page of `validate --against`. Errors are predicted / measured - 1.
#pragma once
#include <string>
#include <vector>

#include "explore/ablation.hpp"
#include "published/bands.hpp"
#include "report/run_page.hpp"

namespace rehearsal::published {

// One line per table, then the mean of tables; with `rows` also every row, and why rows are not judged.
std::string against_text(const std::vector<Prediction>& predictions, bool rows,
                         const std::vector<Coverage>& coverage = {});
std::string against_json(const std::vector<Prediction>& predictions);
// The prediction of each row, without any measurement.
std::string forecast_csv(const std::vector<Prediction>& predictions);
std::string against_csv(const std::vector<Prediction>& predictions);  // one line per row

// Predicted against measured, the scores, every row.
page::Page against_page(const std::vector<Prediction>& predictions);

// Mean error per table with each effect left out, and the change.
struct Removal {
  const answer::Effect* effect;
  std::vector<Score> scores;
};
std::string budget_text(const std::vector<Score>& whole, const std::vector<Removal>& removals);
std::string budget_json(const std::vector<Score>& whole, const std::vector<Removal>& removals);
std::string budget_csv(const std::vector<Score>& whole, const std::vector<Removal>& removals);

}  // namespace rehearsal::published
