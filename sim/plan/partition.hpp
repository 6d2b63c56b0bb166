// Which layers go to which stage.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/parallelism.hpp"

namespace rehearsal::plan {

// Layers per stage, in model order. `uniform`: layers/stages where it divides; else (layers+2)/stages with one layer
// fewer on the first and the last stage where that divides (the embedding and the head take their places, as in the
// Zero Bubble runs); else as even as possible with the extra layers in the middle, and a warning. Throws UserError when
// layers + 2 < stages, or when a listed partition has the wrong length or sum.
std::vector<std::int64_t> deal_layers(std::int64_t layers, std::int64_t stages, const Partition& partition,
                                      std::vector<std::string>& warnings);

}  // namespace rehearsal::plan
