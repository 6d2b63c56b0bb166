#include "cli/vocabulary.hpp"

#include "base/json.hpp"
#include "cli/kinds.hpp"
#include "scenario/schema.hpp"

namespace rehearsal::cli {
namespace {

using Takes = Vocabulary::Takes;

Takes takes(const Option& option) {
  const auto& name = option.value_name;
  if (name.empty()) return Takes::nothing;
  if (!option.choices.empty()) return Takes::choice;
  if (name.starts_with("KEY=")) return Takes::setting;
  if (name == "DIR") return Takes::folder;
  return name.find("FILE") != std::string::npos || name.find(".csv") != std::string::npos ||
                 name.find("TABLE") != std::string::npos
             ? Takes::file
             : Takes::other;
}

Described described(Session& session, const Command& command) {
  try {
    command.run(session, {kDescribe});
  } catch (const Described& itself) {
    return itself;
  }
  return {};
}

std::string text_of(const Json& value) { return value.is_string() ? value.text() : value.dump(); }

// Collects values and keys at one position of the schema, from all of its alternatives.
struct Place {
  std::vector<std::string> values;
  std::vector<std::pair<std::string, const Json*>> below;

  explicit Place(const Json& schema) { add(schema); }

 private:
  void add(const Json& schema) {
    if (const auto* values_here = schema.find("enum"))
      for (const auto& value : values_here->items()) values.push_back(text_of(value));
    if (const auto* type = schema.find("type"); type && type->is_string() && type->text() == "boolean")
      values.insert(values.end(), {"true", "false"});
    for (const char* part : {"anyOf", "oneOf"})
      if (const auto* alternatives = schema.find(part))
        for (const auto& one : alternatives->items()) add(one);
    const auto* properties = schema.find("properties");
    if (!properties) return;
    // A value with source counts as the value.
    if (const auto* value = properties->find("value"); value && properties->find("source")) return add(*value);
    for (const auto& [key, schema_below] : properties->members()) below.emplace_back(key, &schema_below);
  }
};

void collect(const Json& schema, const std::string& prefix, Vocabulary& words) {
  const Place place(schema);
  for (const auto& [key, below] : place.below) {
    const auto values = Place(*below).values;
    words.keys[prefix + key].insert(values.begin(), values.end());  // alternatives may contain the same key
    collect(*below, prefix + key + ".", words);
  }
}

}  // namespace

Vocabulary vocabulary(Session& session) {
  Vocabulary words;
  for (const auto& kind : kinds()) {
    auto& [name, items] = words.kinds.emplace_back(kind.name, std::vector<std::string>{});
    for (const auto& item : kind.items()) items.push_back(item.name);
  }
  for (const auto& command : commands()) {
    const auto itself = described(session, command);
    auto& spoken = words.commands.emplace_back();
    spoken.name = command.name, spoken.summary = command.summary;
    // The names of schedules are those of `list schedules`.
    const auto names_of = [&](const std::string& one) {
      for (const auto& [kind, names] : words.kinds)
        if (kind == one + "s") return names;
      return std::vector<std::string>{};
    };
    for (const auto& option : itself.options) {
      auto& word =
          spoken.options.emplace_back(Vocabulary::Word{"--" + option.name, option.help, takes(option), option.choices});
      if (word.takes != Takes::other) continue;
      word.choices = names_of(option.name);
      if (!word.choices.empty()) word.takes = Takes::choice;
    }
    const auto& operands = itself.text.operands;
    spoken.operands = names_of(spoken.name);
    if (!spoken.operands.empty()) {
      spoken.operand = Takes::choice;
    } else if (operands.starts_with("KIND")) {
      spoken.operand = Takes::choice;
      for (const auto& [kind, names] : words.kinds) spoken.operands.push_back(kind);
    } else if (operands.find("SCENARIO") != std::string::npos || operands.find("FILE") != std::string::npos) {
      spoken.operand = Takes::file;
    } else if (!itself.text.choices.empty()) {
      spoken.operand = Takes::choice, spoken.operands = itself.text.choices;
    }
  }
  collect(Json::parse(scenario::json_schema()), "", words);
  return words;
}

}  // namespace rehearsal::cli
