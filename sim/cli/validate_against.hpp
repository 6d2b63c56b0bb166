// The second form of `validate`: against tables of published runs instead of a run of its own.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/page_options.hpp"

namespace rehearsal::cli {

struct AgainstOptions {
  std::vector<std::string> tables;       // CSV files
  std::vector<std::string> only, where;  // names of tables; empty = all
  std::string scenarios, forecast;       // output files for the scenarios, and for the forecasts without measurements
  std::string framework = "knobs";       // how much of the framework the scenarios set
  bool rows = false, budget = false, bands = false;
  std::optional<double> tolerance;  // for the mean of tables; exit status 1 if exceeded
};

OptionList against_options(AgainstOptions& options);

int validate_against(const CommonOptions& common, const AgainstOptions& options, const PageOptions& pages);

}  // namespace rehearsal::cli
