#include <fmt/format.h>

#include "models/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/support.hpp"

namespace rehearsal::scenario {

std::optional<models::Software> load_software(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, "configs/software", "software profile");
  if (!part.node) return std::nullopt;

  Citations citations;
  MapReader map(problems, part.node, "software", node);
  map.cite(citations, "");
  models::Software software;
  software.name = part.name;
  for (const char* key : kAbout) map.find(key);
  if (map.find("supports")) load_support(context, part.node, "");  // for a plan, but its mistakes are seen here
  software.source = map.text("source", "");
  const bool assumed = map.boolean("assumed", false);
  map.fill(models::software_fields(), &software);
  map.finish();
  if (problems.count() != before) return std::nullopt;
  if (assumed)
    context.assume(fmt::format("software {}: the profile was not fitted ({})", software.name, software.source));
  software.sources = std::move(citations.sources);
  software.assumed = std::move(citations.assumed);
  return software;
}

}  // namespace rehearsal::scenario
