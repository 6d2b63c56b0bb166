// Every schedule of the house by name.
#pragma once
#include "base/registry.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

using Registry = PluginRegistry<Schedule>;

void register_all(Registry& registry);  // generated from the file names of all/
const Registry& registry();

}  // namespace rehearsal::schedule
