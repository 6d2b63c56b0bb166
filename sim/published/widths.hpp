// How far a prediction may be off because fitted constants are: each that acts on it is turned by its width
// (configs/constants.yaml), one after the other.
#pragma once
#include "published/against.hpp"
#include "published/bands.hpp"

namespace rehearsal::published {

// Of each class of comparable runs with enough of them, by its run of middle length: the root of the sum of the squares
// of what ln of the step moves by.
Widths widths(const std::vector<Prediction>& predictions, const ValidationRun& options);

}  // namespace rehearsal::published
