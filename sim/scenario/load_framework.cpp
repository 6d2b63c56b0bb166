#include <fmt/format.h>

#include "models/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/support.hpp"

namespace rehearsal::scenario {

std::optional<models::Framework> load_framework(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, "configs/frameworks", "framework profile");
  if (!part.node) return std::nullopt;

  Citations citations;
  MapReader map(problems, part.node, "framework", node);
  map.cite(citations, "");
  models::Framework framework;
  framework.name = part.name;
  for (const char* key : kAbout) map.find(key);
  if (map.find("supports")) load_support(context, part.node, "");  // used only by `plan`, but errors are reported here
  framework.source = map.text("source", "");
  const bool assumed = map.boolean("assumed", false);
  map.fill(models::framework_fields(), &framework);
  map.finish();
  if (problems.count() != before) return std::nullopt;
  if (assumed)
    context.assume(fmt::format("framework {}: the profile was not fitted ({})", framework.name, framework.source));
  framework.sources = std::move(citations.sources);
  framework.assumed = std::move(citations.assumed);
  return framework;
}

}  // namespace rehearsal::scenario
