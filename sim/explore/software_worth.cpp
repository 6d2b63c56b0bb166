#include "explore/software_worth.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "answer/estimate.hpp"
#include "base/error.hpp"
#include "base/quantity_text.hpp"

namespace rehearsal::explore {

SoftwareTimes with_other_software(const scenario::Scenario& scenario, const std::vector<std::string>& sets) {
  SoftwareTimes times;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(scenario.file, ignored)) return times;
  for (const auto& name : scenario.other_software) {
    auto changed = sets;
    changed.push_back("software=" + name);
    changed.emplace_back("simulate.detail=stage");  // as long at every detail
    changed.emplace_back("simulate.symmetry=auto");
    try {
      times.emplace_back(name, answer::estimate(scenario::load(scenario.file, changed)).iteration);
    } catch (const UserError&) {
    }
  }
  return times;
}

std::string software_worth(const scenario::Scenario& scenario, const SoftwareTimes& others, Time iteration) {
  if (scenario.other_software.empty()) return "";
  auto text = fmt::format("software: none was given, {} was assumed", scenario.concrete->software.name);
  if (others.empty()) return fmt::format("{}; it may be {}", text, fmt::join(scenario.other_software, ", "));
  Time least = iteration, most = iteration;
  std::string list;
  for (const auto& [name, time] : others) {
    least = std::min(least, time), most = std::max(most, time);
    list +=
        fmt::format("{}{} {} ({:+.1f} %)", list.empty() ? "" : ", ", name, show(time), (time / iteration - 1) * 100);
  }
  return fmt::format("{}; by the choice a step takes {} to {}: {}", text, show(least), show(most), list);
}

}  // namespace rehearsal::explore
