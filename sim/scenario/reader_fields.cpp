// Reads a struct by its description: each key as the folder that defines the struct describes it.
#include <fmt/format.h>

#include <algorithm>

#include "scenario/reader.hpp"

namespace rehearsal::scenario {
namespace {

using fields::Form;
using fields::Value;

IntegerRange integers(const Form& form) {
  constexpr double kBeyond = 9.2e18;
  return {static_cast<std::int64_t>(form.low), form.high > kBeyond ? INT64_MAX : static_cast<std::int64_t>(form.high)};
}

// The description of a missing key, for its error.
std::string expected(const Form& form) {
  switch (form.kind) {
    case Form::Kind::boolean:
      return "true or false";
    case Form::Kind::integer:
      return fmt::format("a whole number from {} to {}", integers(form).low, integers(form).high);
    case Form::Kind::number:
      return "a number";
    case Form::Kind::time:
      return "a time such as 18.5ms";
    case Form::Kind::bytes:
      return "a size such as 80GiB";
    case Form::Kind::bandwidth:
      return "a bandwidth such as 400Gb/s";
    case Form::Kind::flop_rate:
      return "a rate such as 312TFLOP/s";
    case Form::Kind::duration:
      return "a duration such as 30d";
    case Form::Kind::power:
      return "a power such as 700W";
    case Form::Kind::carbon:
      return "a carbon intensity such as 0.4kg/kWh";
    case Form::Kind::count:
      return "a count such as 2T";
    case Form::Kind::version:
      return "a version such as 2.18";
    case Form::Kind::choice:
      return fmt::format("one of {}", fmt::join(form.names, ", "));
    case Form::Kind::name:
      return "the name of a " + form.what;
    case Form::Kind::text:
    case Form::Kind::table:
      break;
  }
  return "a text";
}

bool is_zero(const Value& value) {
  return value == Value(Bytes{}) || value == Value(Bandwidth{}) || value == Value(FlopRate{}) ||
         value == Value(Time{}) || value == Value(Duration{}) || value == Value(Power{}) ||
         value == Value(CarbonIntensity{}) || value == Value(Count{});
}

// A substitute for a wrong or missing value, so that later checks do not fail too.
std::optional<Value> stand_in(const Form& form) {
  if (form.kind == Form::Kind::integer) return Value(integers(form).low);
  if (form.kind == Form::Kind::number) return Value(form.high);
  return std::nullopt;
}

// A list of these names without repetition; `complete`: all of them.
std::optional<Value> read_names(Diagnostics& problems, const Node& node, const std::string& what,
                                const std::vector<std::string>& names, bool complete) {
  const auto all = fmt::format("{}", fmt::join(names, ", "));
  const auto before = problems.count();
  if (node.kind != Node::Kind::sequence) {
    problems.error(node.where(), fmt::format("{} must be a list of {}{}; found {}", what, all,
                                             complete ? ", each once" : "", describe(node)));
    return std::nullopt;
  }
  std::vector<Value> order;
  for (const auto& item : node.items) {
    const auto picked = read_choice(problems, *item, "an entry of " + what, names, {});
    if (!picked) continue;
    if (std::find(order.begin(), order.end(), Value(names[*picked])) != order.end())
      problems.error(item->where(), fmt::format("{} names '{}' twice; it takes each of {} once{}", what, names[*picked],
                                                all, complete ? "" : " at most"));
    order.emplace_back(names[*picked]);
  }
  if (problems.count() != before) return std::nullopt;
  for (const auto& name : names)
    if (complete && std::find(order.begin(), order.end(), Value(name)) == order.end())
      problems.error(node.where(), fmt::format("{} does not name '{}'; it takes each of {} once", what, name, all));
  if (problems.count() != before) return std::nullopt;
  return Value(order);
}

std::optional<Value> read_list(Diagnostics& problems, const Node& node, const std::string& what, Form form) {
  form.list = false;
  if (node.kind != Node::Kind::sequence) {
    problems.error(node.where(), fmt::format("{} must be a list; found {}", what, describe(node)));
    return std::nullopt;
  }
  std::vector<Value> values;
  for (const Node* item : node.items)
    if (auto value = read_value(problems, *item, "an entry of " + what, form)) values.push_back(std::move(*value));
  return values.size() == node.items.size() ? std::optional<Value>(std::move(values)) : std::nullopt;
}

}  // namespace

std::optional<Value> read_value(Diagnostics& problems, const Node& node, const std::string& what, const Form& form) {
  if (form.each_once || form.some()) return read_names(problems, node, what, form.names, form.each_once);
  if (form.list) return read_list(problems, node, what, form);
  const auto read = [&](auto reader, auto... more) -> std::optional<Value> {
    const auto value = reader(problems, node, what, more...);
    return value ? std::optional<Value>(*value) : std::nullopt;
  };
  std::optional<Value> value;
  switch (form.kind) {
    case Form::Kind::boolean:
      return read(read_boolean);
    case Form::Kind::integer:
      return read(read_integer, integers(form));
    case Form::Kind::number:
      return read(read_number, NumberRange{form.low, form.high, form.above});
    case Form::Kind::time:
      value = read(read_time);
      break;
    case Form::Kind::bytes:
      value = read(read_bytes);
      break;
    case Form::Kind::bandwidth:
      value = read(read_bandwidth);
      break;
    case Form::Kind::flop_rate:
      value = read(read_flop_rate);
      break;
    case Form::Kind::duration:
      value = read(read_duration);
      break;
    case Form::Kind::power:
      value = read(read_power);
      break;
    case Form::Kind::carbon:
      value = read(read_carbon);
      break;
    case Form::Kind::count:
      value = read(read_count);
      break;
    case Form::Kind::version:
      return read(read_version);
    case Form::Kind::choice:
      if (const auto picked = read_choice(problems, node, what, form.names, form.planned))
        return Value(form.names[*picked]);
      return std::nullopt;
    case Form::Kind::name:
    case Form::Kind::text:
    case Form::Kind::table:
      return read(read_text);
  }
  if (value && form.above && is_zero(*value)) problems.error(node.where(), what + " must be above zero");
  return value;
}

void MapReader::fill(const fields::Description& description, void* object, Except except) {
  fill(description, object, "", except);
}

void MapReader::fill_given(const fields::Description& description, void* object) {
  for (const auto& field : description.fields)
    if (field.key_of_files && given(field.key)) fill_field(field, object, field.key);
}

void MapReader::fill(const fields::Description& description, void* object, const std::string& prefix, Except except) {
  std::vector<std::string> groups;
  const auto left_out = [&](std::string_view key) {
    return std::find(except.begin(), except.end(), key) != except.end();
  };
  // The key in this mapping on the way to a dotted key below `prefix`; nothing if there is none or it has been read.
  const auto own = [&](const std::string& key) -> std::optional<std::string> {
    if (!key.starts_with(prefix)) return std::nullopt;
    const auto end = key.find('.', prefix.size());
    auto name = key.substr(prefix.size(), end == std::string::npos ? end : end - prefix.size());
    if (left_out(prefix + name)) return std::nullopt;
    if (end == std::string::npos) return name;
    if (std::find(groups.begin(), groups.end(), name) == groups.end()) {
      groups.push_back(name);
      fill_group(description, object, prefix + name, except);
    }
    return std::nullopt;
  };
  for (const auto& field : description.fields)
    if (field.key_of_files)
      if (const auto key = own(field.key)) fill_field(field, object, *key);
}

// If the mapping is missing, its fields keep the struct's defaults.
void MapReader::fill_group(const fields::Description& description, void* object, const std::string& key,
                           Except except) {
  const auto* group = description.group(key);
  const auto name = key.substr(key.rfind('.') + 1);  // npos + 1 = 0
  const Node* node = group && group->required ? require(name, group->help) : find(name);
  if (!node) return;
  if (group && !group->short_for.empty() && node->kind != Node::Kind::map) {
    const auto& field = description.at(key + "." + group->short_for);
    if (const auto value = read_value(problems_, *node, label(name), field.form)) field.set(object, *value);
    return;
  }
  // One source may cover all numbers of the mapping.
  Citations shared;
  if (citations_ && node->kind == Node::Kind::map && node->find("value")) {
    std::swap(shared, *citations_);
    node = uncited(name, node);
    std::swap(shared, *citations_);
    if (!node) return;
  }
  MapReader below(problems_, *node, name);
  if (citations_) below.cite(*citations_, prefix_ + name + ".");
  below.fill(description, object, key + ".", except);
  for (const auto& read : except)  // read by the caller
    if (read.starts_with(key + ".")) below.find(read.substr(key.size() + 1));
  below.finish();
  if (citations_ && !(shared.sources.empty() && shared.assumed.empty()))
    for (const auto& e : node->entries) {
      const auto path = prefix_ + name + "." + e.key->text;
      if (!shared.sources.empty()) citations_->sources.emplace(path, shared.sources.begin()->second);
      if (!shared.assumed.empty()) citations_->assumed.push_back(path);
    }
}

void MapReader::fill_field(const fields::Field& field, void* object, std::string_view key) {
  const Node* node = nullptr;
  if (field.null && node_ && node_->find(key) && node_->find(key)->kind == Node::Kind::null)
    nullable(key);
  else
    node = number_of(key, field.required, expected(field.form));
  if (node) {
    if (const auto value = read_value(problems_, *node, label(key), field.form)) return field.set(object, *value);
  } else if (!field.required) {
    if (field.assumed && node_ && citations_) {
      const auto path = prefix_ + std::string(key);
      citations_->assumed.push_back(path), citations_->sources[path] = "default of an inline cluster";
    }
  }
  if (!field.required)
    field.set(object, field.otherwise(object));
  else if (const auto least = stand_in(field.form))
    field.set(object, *least);
}

}  // namespace rehearsal::scenario
