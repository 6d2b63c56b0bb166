// The schedules that this program's own kernels perform: all but those that cut a vocabulary over the pipeline's ranks.
#pragma once
#include <string>
#include <vector>

#include "schedule/registry.hpp"

inline std::vector<std::string> performed_schedules() {
  using namespace rehearsal::schedule;
  auto all = registry().names();
  std::erase_if(all, [](const auto& name) { return registry().at(name).placement == Placement::vocabulary; });
  return all;
}
