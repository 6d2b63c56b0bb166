// The error of predictions due to the uncertainty of fitted constants: each one that affects a prediction is varied by
// its width (configs/constants.yaml), one at a time.
#pragma once
#include "published/against.hpp"
#include "published/bands.hpp"

namespace rehearsal::published {

// For each class of comparable runs with enough rows, from its run of median length: the root of the sum of squares of
// the changes in ln of the step.
Widths widths(const std::vector<Prediction>& predictions, const ValidationRun& options);

}  // namespace rehearsal::published
