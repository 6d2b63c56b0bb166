#include "scenario/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "scenario/format.hpp"
#include "scenario/reader.hpp"

namespace rehearsal::scenario {
namespace {

using fields::Form;

constexpr double kExact = 9e15;  // integers beyond 2^53 are not exact in JSON

Json limited(const Form& form) {
  const bool whole = form.kind == Form::Kind::integer;
  const auto number = [&](double x) { return whole ? Json(static_cast<std::int64_t>(x)) : Json(x); };
  Json json{{"type", whole ? "integer" : "number"}};
  json[form.above ? "exclusiveMinimum" : "minimum"] = number(form.low);
  if (form.high < kExact) json["maximum"] = number(form.high);
  return json;
}

Json quantity(const char* example) {
  return {
      {"description", example},
      {"anyOf",
       {{{"type", "string"}, {"pattern", "^ *\\+?[0-9.]+([eE][+-]?[0-9]+)? *[A-Za-z][A-Za-z/]* *$"}}, {{"const", 0}}}}};
}

Json any_of(std::vector<Json> alternatives) {
  if (alternatives.empty()) return Json::object();
  if (alternatives.size() == 1) return alternatives.front();
  return {{"anyOf", alternatives}};
}

Json mapping(const Files& files, const Key& key, bool overlaid);
Json to_json(const Files& files, const Form& form);

// Of a row: how many values, each of any of its forms.
Json entry(const Files& files, const Form& form) {
  if (!form.row) {
    auto json = mapping(files, key_of_entry(form), false);
    json["minProperties"] = 1;
    return json;
  }
  std::vector<Json> values;
  std::int64_t least = 0;
  for (const auto& field : form.of->fields) {
    auto json = to_json(files, field.form);
    const auto same = [&](const Json& other) { return other.dump() == json.dump(); };
    if (std::none_of(values.begin(), values.end(), same)) values.push_back(std::move(json));
    least += field.required;
  }
  return {{"type", "array"},
          {"items", any_of(std::move(values))},
          {"minItems", least},
          {"maxItems", static_cast<std::int64_t>(form.of->fields.size())}};
}

Json one(const Files& files, const Form& form) {
  if (form.quantity() && form.kind != Form::Kind::count) return quantity(measure_of(form.kind)->example);
  switch (form.kind) {
    case Form::Kind::integer:
    case Form::Kind::number:
      return limited(form);
    case Form::Kind::boolean:
      return {{"type", "boolean"}};
    case Form::Kind::count:
      return {{"description", "a count such as 2T, or 2e12"},
              {"anyOf",
               {{{"type", "string"}, {"pattern", "^ *[0-9.]+([eE][+-]?[0-9]+)? *[kMBT]? *$"}},
                {{"type", "number"}, {"exclusiveMinimum", 0}}}}};
    case Form::Kind::version:
      return {{"description", "a version such as 2.18; in JSON as a text"},
              {"anyOf", {{{"type", "string"}, {"pattern", "^[0-9]+\\.[0-9]+(\\.[0-9]+)?$"}}, {{"type", "number"}}}}};
    case Form::Kind::choice:
      return {{"enum", form.names}};
    case Form::Kind::name:
      return {{"enum", names_of(files, form.what)}};
    case Form::Kind::share:
      return {{"description", "a share such as 0.02 or 2%"},
              {"anyOf", {limited(form), {{"type", "string"}, {"pattern", "^[0-9.]+([eE][+-]?[0-9]+)?%$"}}}}};
    case Form::Kind::entry:
      return entry(files, form);
    case Form::Kind::table:
      return {{"type", "object"}, {"minProperties", 1}};
    default:
      return {{"type", "string"}};
  }
}

Json to_json(const Files& files, const Form& form) {
  if (!form.list) return one(files, form);
  Json json{{"type", "array"}, {"items", one(files, form)}};
  if (form.set) json["uniqueItems"] = true;
  if (form.each_once) {
    const auto count = static_cast<std::int64_t>(form.names.size());
    json["uniqueItems"] = true, json["minItems"] = count, json["maxItems"] = count;
  }
  return json;
}

// A word with the type that YAML gives it.
Json typed(const std::string& text) {
  const auto json = Json::read(text);
  return json && (json->is_number() || json->is_boolean()) ? *json : Json(text);
}

// `overlaid`: the mapping may override keys of a named file, which provides the missing ones.
Json to_json(const Files& files, const Key& key, bool overlaid) {
  std::vector<Json> alternatives;
  for (const auto& form : key.forms) alternatives.push_back(to_json(files, form));
  if (key.mapping) alternatives.push_back(mapping(files, key, overlaid));
  if (key.null) alternatives.push_back({{"type", "null"}});
  // A mapping of numbers may have one source for all of them.
  const bool numbers = key.mapping && !key.below.empty() && key.below.front().cited && !key.library;
  auto json = any_of(alternatives);
  if (key.cited || numbers) {
    const Json value = json;
    json = {{"anyOf",
             {value,
              {{"type", "object"},
               {"properties",
                {{"value", value},
                 {"source", {{"type", "string"}}},
                 {"assumed", {{"type", "boolean"}}},
                 {"fitted", {{"type", "boolean"}}}}},
               {"required", {"value"}},
               {"additionalProperties", false}}}}};
  }
  if (!key.help.empty() && !json.find("description")) json["description"] = key.help;
  if (const auto* list = std::get_if<std::vector<fields::Value>>(&key.usual)) {
    json["default"] = Json::array();
    for (const auto& item : *list) json["default"].push_back(typed(fields::shown(item)));
  } else if (!key.usual.absent()) {
    json["default"] = typed(fields::shown(key.usual));
  }
  return json;
}

Json mapping(const Files& files, const Key& key, bool overlaid) {
  auto properties = Json::object();
  auto required = Json::array();
  for (const auto& k : key.below) {
    properties[k.name] = to_json(files, k, overlaid || key.library);
    if (k.required) required.push_back(k.name);
  }
  Json json{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (required.items().empty() || overlaid) return json;
  if (key.library)
    json["anyOf"] = {{{"required", {"use"}}}, {{"required", required}}};
  else
    json["required"] = required;
  return json;
}

std::string say_one(const Form& form) {
  if (const auto* measure = measure_of(form.kind)) return measure->word;
  switch (form.kind) {
    case Form::Kind::integer:
      return form.high < kExact ? fmt::format("whole number, {:.0f} to {:.0f}", form.low, form.high)
                                : fmt::format("whole number from {:.0f}", form.low);
    case Form::Kind::number:
      return form.high < kExact ? fmt::format("number {} {}{} {}", form.above ? "above" : "from", form.low,
                                              form.above ? ", at most" : " to", form.high)
                                : fmt::format("number {} {}", form.above ? "above" : "from", form.low);
    case Form::Kind::boolean:
      return "true, false";
    case Form::Kind::choice:
      return fmt::format(
          "{}{}", fmt::join(form.names, ", "),
          form.planned.empty() ? "" : fmt::format(" (not built yet: {})", fmt::join(form.planned, ", ")));
    case Form::Kind::name:
      return "name of a " + form.what;
    case Form::Kind::share:
      return "share, such as 2%";
    case Form::Kind::entry:
    case Form::Kind::table:
      return form.what;
    default:
      return "text";
  }
}

std::string say(const Key& key) {
  std::string text;
  const auto join = [&](const std::string& more) { text += (text.empty() ? "" : "; or ") + more; };
  for (const auto& form : key.forms)
    join((form.list ? "list of " : "") + say_one(form) + (form.each_once ? ", each once" : ""));
  if (key.mapping) join("mapping");
  if (key.null) join("null");
  return text;
}

void list(const Key& key, bool overlaid, std::vector<FieldRow>& rows) {
  for (const auto& k : key.below) {
    std::string fallback = k.said;
    if (k.required) fallback = key.library || overlaid ? "required without `use`" : "required";
    if (!k.usual.absent()) fallback = fields::shown(k.usual);
    rows.push_back({k.path, say(k), fallback, k.help});
    list(k, overlaid || key.library, rows);
  }
}

}  // namespace

std::string json_schema(const Files& files) {
  Json json{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
            {"title", "Rehearsal scenario"},
            {"description", "Keys and kinds of values. What must divide or fit is checked by 'rehearse check'."}};
  json.update(mapping(files, format(), false));
  return json.dump(2) + "\n";
}

std::vector<FieldRow> keys() {
  std::vector<FieldRow> rows;
  list(format(), false, rows);
  return rows;
}

std::optional<FieldRow> key_of(const std::string& kind, const std::string& key) {
  const auto prefix = kind == "gpus" ? "cluster.gpu." : kind == "clusters" ? "cluster." : "framework.";
  for (auto& row : keys())
    if (row.path == prefix + key) return row;
  return std::nullopt;
}

std::string key_table() {
  std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const auto& row : keys())
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.path, row.value, row.fallback, row.help);
  return text;
}

}  // namespace rehearsal::scenario
