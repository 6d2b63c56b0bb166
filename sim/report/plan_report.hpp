// Reports `plan` as text, as JSON (contract section 8) and as CSV.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "explore/deciding.hpp"
#include "page/layout.hpp"
#include "report/shown.hpp"
#include "search/search.hpp"

namespace rehearsal::report {

// Whether the best layout is proven optimal, or how far from the optimum it may be.
std::string proof_text(const search::Space& space, const search::Outcome& outcome);

// Where 80 % of the runs like a layout would fall, in what the search minimises.
struct Band {
  const char* of;  // "cost", in the currency of `job`, "energy_mwh" or "iteration_s"
  double low = 0, high = 0;
};
// Nothing if no published run says anything about it.
std::optional<Band> band_of(const search::Space& space, const search::Found& found);
// Whether bands overlap, so that a prediction does not tell which layout is better.
std::optional<bool> overlap(const search::Space& space, const search::Found& one, const search::Found& other);
// By how much a layout is worse than the best in what the search minimises, relative.
double behind(const search::Space& space, const search::Found& one, const search::Found& best);
// Where a layout is slower and faster than another: the parts of its iteration that differ by at least a thousandth of
// it, largest first.
std::string against(const search::Found& one, const search::Found& best);
// The job of the space, if it has one.
const job::Job* job_of(const search::Space& space);

// A layout whose band overlaps with that of the best, and the numbers that would tell them apart.
struct Tie {
  const search::Found* other;
  std::vector<explore::Deciding> numbers;
};

struct Plan {
  const search::Space& space;
  const search::Outcome& outcome;
  std::vector<Tie> ties = {};
  bool ties_stopped = false;  // before all were known
  search::Goal goal = search::goal_of(space.file().space);
  std::vector<search::Found> front = search::front(space, outcome.found);
};
// The layouts to tell apart from the best: the second and, of each other cluster, the best; those whose bands overlap.
std::vector<const search::Found*> contenders(const search::Space& space, const search::Outcome& outcome);
const Shown<Plan>& plan_answer();
std::string plan_text(const Plan& plan, const page::TextStyle& style);
// The answer alone, of a plan that found one: machine, days, money and band, the other clusters, the layout.
std::string headline(const Plan& plan, const page::TextStyle& style);
std::string plan_csv(const Plan& plan);  // one line for each of the best layouts

}  // namespace rehearsal::report
