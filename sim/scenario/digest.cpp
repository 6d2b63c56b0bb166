// The canonical text of a scenario, and its SHA-256. Two files with the same digest ask the same question: spelling,
// order of keys, defaults written out or not, names and citations do not count; every field that can change a result
// does (scenario/fields.hpp). A value equal to the struct's default is omitted, so that stored digests stay valid when
// fields are added; for the same reason keys and values are written under their first names.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "base/sha256.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"
#include "scenario/renamed.hpp"

namespace rehearsal::scenario {

namespace {

// Of a scenario that says nothing, by field.
std::vector<fields::Value> values_of_blank(bool concrete, bool abstract) {
  Scenario blank;
  if (concrete) blank.concrete.emplace();
  if (abstract) blank.abstract.emplace();
  std::vector<fields::Value> values;
  for (const auto& field : scenario_fields().fields) values.push_back(field.get(&blank));
  return values;
}
const std::vector<fields::Value>& blank_values(bool concrete, bool abstract) {
  static const std::array<std::vector<fields::Value>, 4> all{values_of_blank(false, false),
                                                             values_of_blank(true, false), values_of_blank(false, true),
                                                             values_of_blank(true, true)};
  return all[std::size_t{concrete} + 2 * std::size_t{abstract}];
}

}  // namespace

std::string digest(const Scenario& scenario) {
  const auto& fields = scenario_fields().fields;
  const auto& blank = blank_values(scenario.concrete.has_value(), scenario.abstract.has_value());
  static const std::vector<std::string> first_keys = [&] {
    std::vector<std::string> keys;
    for (const auto& field : fields) keys.push_back(first_key(field.key));
    return keys;
  }();
  std::string text = "rehearsal-scenario=1:2\n";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& field = fields[i];
    if (!field.acts) continue;
    const auto value = field.get(&scenario);
    if (value == blank[i] || value == field.when_absent) continue;
    const auto written = fields::written(value);
    const auto said = first_value(field.key, written);
    text += fmt::format("{}={}:{}\n", first_keys[i], said.size(), said);
  }
  return sha256(text);
}

}  // namespace rehearsal::scenario
