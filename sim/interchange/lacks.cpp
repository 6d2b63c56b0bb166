#include <fmt/format.h>

#include <algorithm>

#include "interchange/format.hpp"

namespace rehearsal::interchange {

void lack_others(const scenario::Scenario& scenario, const std::vector<std::string_view>& said, Lacks& lacks) {
  for (const auto& [key, where] : scenario.given) {
    if (key.starts_with("plan.")) continue;  // what a search may choose from is nothing of the scenario
    const bool known = std::any_of(said.begin(), said.end(), [&key = key](const std::string_view one) {
      return one.ends_with('*') ? key.starts_with(one.substr(0, one.size() - 1)) : key == one;
    });
    if (!known) lacks.push_back(fmt::format("{} ({})", key, to_text(where)));
  }
}

}  // namespace rehearsal::interchange
