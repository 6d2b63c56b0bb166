// Reports `plan` as text, as JSON (contract section 8) and as CSV.
#pragma once
#include <string>

#include "page/page.hpp"
#include "search/search.hpp"

namespace rehearsal::report {

// Whether the best layout is proven optimal, or how far from the optimum it may be.
std::string proof_text(const search::Space& space, const search::Outcome& outcome);
// The best layouts, one row each.
page::Table plan_table(const search::Space& space, const search::Outcome& outcome);
std::string plan_text(const search::Space& space, const search::Outcome& outcome, const page::TextStyle& style);
std::string plan_json(const search::Space& space, const search::Outcome& outcome);
// One line for each of the best layouts.
std::string plan_csv(const search::Space& space, const search::Outcome& outcome);

}  // namespace rehearsal::report
