// Features that scenarios can specify, count and check, but that have no price yet.
#pragma once
#include "plan/plan.hpp"

namespace rehearsal::plan {

// Throws UserError that names what of the job has no price. The one place where such jobs are refused: when something
// is priced, its line in here goes.
void refuse_unpriced(const Job& job);

}  // namespace rehearsal::plan
