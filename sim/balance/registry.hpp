// All placement methods by name.
#pragma once
#include "balance/method.hpp"
#include "base/registry.hpp"

namespace rehearsal::balance {

using Registry = PluginRegistry<Method>;

void register_all(Registry& registry);  // generated from the file names of all/
const Registry& registry();

}  // namespace rehearsal::balance
