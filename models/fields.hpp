// What users may specify of a model, of training and of a framework: keys, units, ranges, defaults (base/fields.hpp).
#pragma once
#include "base/fields.hpp"
#include "models/experts.hpp"
#include "models/transformer.hpp"

namespace rehearsal::models {

const fields::Description& model_fields();
// Of a layer that is listed: keys of `mixer`, and of `ffn` besides its kind.
const fields::Description& layer_mixer();
const fields::Description& layer_feed_forward();
const fields::Description& expert_fields();     // of Transformer
const fields::Description& training_fields();   // of Training
const fields::Description& framework_fields();  // of Framework

}  // namespace rehearsal::models
