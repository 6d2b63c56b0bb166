// Layers one by one as `model.layers` has them: runs of equal ones, and runs of what comes again and again.
#pragma once
#include <vector>

#include "base/json.hpp"

namespace rehearsal::interchange {

// Each entry is a mapping as a run without `repeat`: {mixer: ..., ffn: ...}, or {} for a layer as the model has it.
Json folded(const std::vector<Json>& layers);

}  // namespace rehearsal::interchange
