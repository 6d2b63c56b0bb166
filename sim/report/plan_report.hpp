// `plan` for people (text), for programs (JSON, contract section 8) and for tables (CSV).
#pragma once
#include <string>

#include "page/page.hpp"
#include "search/search.hpp"

namespace rehearsal::report {

// Whether the best is proven, of what; or how far it may be.
std::string proof_text(const search::Space& space, const search::Outcome& outcome);
// The best, a row each.
page::Table plan_table(const search::Space& space, const search::Outcome& outcome);
std::string plan_text(const search::Space& space, const search::Outcome& outcome, const page::TextStyle& style);
std::string plan_json(const search::Space& space, const search::Outcome& outcome, const std::string& version);
// A line for each of the best.
std::string plan_csv(const search::Space& space, const search::Outcome& outcome);

}  // namespace rehearsal::report
