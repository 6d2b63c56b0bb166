// Reports `plan` as text, as JSON (contract section 8) and as CSV.
#pragma once
#include <string>

#include "page/layout.hpp"
#include "report/shown.hpp"
#include "search/search.hpp"

namespace rehearsal::report {

// Whether the best layout is proven optimal, or how far from the optimum it may be.
std::string proof_text(const search::Space& space, const search::Outcome& outcome);

struct Plan {
  const search::Space& space;
  const search::Outcome& outcome;
  search::Goal goal = search::goal_of(space.file().space);
  std::vector<search::Found> front = search::front(space, outcome.found);
};
const Shown<Plan>& plan_answer();
std::string plan_text(const Plan& plan, const page::TextStyle& style);
std::string plan_csv(const Plan& plan);  // one line for each of the best layouts

}  // namespace rehearsal::report
