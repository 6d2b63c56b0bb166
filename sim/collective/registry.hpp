// Every collective algorithm of the house by name.
#pragma once
#include "base/registry.hpp"
#include "collective/collective.hpp"

namespace rehearsal::collective {

using Registry = PluginRegistry<Algorithm>;

void register_all(Registry& registry);  // generated from the file names of all/
const Registry& registry();

}  // namespace rehearsal::collective
