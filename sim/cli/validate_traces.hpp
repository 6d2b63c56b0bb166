// The third form of `validate`: beside traces of the run, which somebody else performed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/page_options.hpp"

namespace rehearsal::cli {

// `within`: the tolerance for the step; exit status 1 if it is exceeded.
int validate_traces(const CommonOptions& common, const std::string& scenario, const std::vector<std::string>& traces,
                    std::optional<double> within, const PageOptions& pages, const Arguments& arguments);

}  // namespace rehearsal::cli
