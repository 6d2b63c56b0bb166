// What follows from all files of a scenario together, and what none of them says.
#pragma once
#include "interchange/draft.hpp"
#include "scenario/files.hpp"

namespace rehearsal::interchange {

// Completes a draft to a scenario: the degree of data parallelism, the batch, a padded vocabulary, the machine. Throws
// UserError where files contradict each other, and where what cannot be assumed is said by none.
void conclude(ScenarioDraft& draft, const scenario::Files& files);

// Whether all files are of a machine, and none of what is trained on it: then conclude() completes `cluster` alone.
bool is_of_machine_alone(const ScenarioDraft& draft);

}  // namespace rehearsal::interchange
