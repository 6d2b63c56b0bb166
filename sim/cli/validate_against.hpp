// `validate` in its second form: against tables of published runs instead of a run of its own.
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
  std::string scenarios, forecast;       // where to write what was priced, and what was said before measuring
  std::string framework = "knobs";        // how much the scenarios say of the framework
  bool rows = false, budget = false, bands = false;
  std::optional<double> tolerance;  // of the mean of tables; exit status 1 above it
};

OptionList against_options(AgainstOptions& options);

int validate_against(const CommonOptions& common, const AgainstOptions& options, const PageOptions& pages);

}  // namespace rehearsal::cli
