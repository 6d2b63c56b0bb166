// Every optimizer of the house by name.
#pragma once
#include "base/registry.hpp"
#include "models/optimizer.hpp"

namespace rehearsal::models {

using Registry = PluginRegistry<Optimizer>;

void register_optimizers(Registry& registry);  // generated from the file names of optimizers/
const Registry& optimizers();

}  // namespace rehearsal::models
