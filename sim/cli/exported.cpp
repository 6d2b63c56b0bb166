#include "cli/exported.hpp"

#include <fmt/format.h>

#include "interchange/format.hpp"

namespace rehearsal::cli {

std::vector<std::string> scenario_formats() {
  std::vector<std::string> names;
  for (const auto& [name, format] : interchange::registry())
    if (format.write) names.push_back(name);
  return names;
}

bool emit_exported(const CommonOptions& common, const std::string& format, const scenario::Scenario& scenario) {
  interchange::Lacks lacks;
  const auto written = interchange::registry().at(format).write(scenario, lacks);
  std::vector<std::string> warnings;
  for (const auto& lack : lacks) warnings.push_back(fmt::format("{} has no word for {}", format, lack));
  warn(common, warnings);
  emit_report(common, written);
  return lacks.empty();
}

}  // namespace rehearsal::cli
