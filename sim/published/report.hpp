// What `validate --against` prints and draws. Errors are predicted / measured - 1.
#pragma once
#include <string>
#include <vector>

#include "explore/ablation.hpp"
#include "published/score.hpp"
#include "report/run_page.hpp"

namespace rehearsal::published {

// One line per table, then the mean of tables; with `rows`, every row as well, and the reasons of those not judged.
std::string against_text(const std::vector<Prediction>& predictions, bool rows);
std::string against_json(const std::vector<Prediction>& predictions, const std::string& version);
// What is said of each row, and nothing of what was measured.
std::string forecast_csv(const std::vector<Prediction>& predictions);
std::string against_csv(const std::vector<Prediction>& predictions);  // one line per row

// Predicted against measured, the scores, every row.
page::Page against_page(const std::vector<Prediction>& predictions, const std::string& version);

// Mean error per table with each effect left out, and what that changed.
struct Removal {
  const answer::Effect* effect;
  std::vector<Score> scores;
};
std::string budget_text(const std::vector<Score>& whole, const std::vector<Removal>& removals);
std::string budget_json(const std::vector<Score>& whole, const std::vector<Removal>& removals,
                        const std::string& version);
std::string budget_csv(const std::vector<Score>& whole, const std::vector<Removal>& removals);

// Where 80 % of the rows of each class fell (scenario/run_class.hpp), and of each generation of GPUs, in the form of
// configs/error_bands.yaml; groups of fewer than `least` rows are left out. Then what ran with which attention.
std::string bands_yaml(const std::vector<Prediction>& predictions, std::size_t least);

}  // namespace rehearsal::published
