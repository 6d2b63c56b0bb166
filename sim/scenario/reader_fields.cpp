// Reads a struct by its description: each key as the folder that defines the struct describes it.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "balance/registry.hpp"
#include "base/spelling.hpp"
#include "cluster/registry.hpp"
#include "reshard/registry.hpp"
#include "scenario/reader.hpp"
#include "schedule/registry.hpp"

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
  if (const auto* measure = measure_of(form.kind)) return measure->example;
  switch (form.kind) {
    case Form::Kind::boolean:
      return "true or false";
    case Form::Kind::integer:
      return fmt::format("a whole number from {} to {}", integers(form).low, integers(form).high);
    case Form::Kind::number:
      return form.above ? fmt::format("a number above {}", form.low) : "a number";
    case Form::Kind::share:
      return "a share such as 0.02 or 2%";
    case Form::Kind::choice:
      return fmt::format("one of {}", fmt::join(form.names, ", "));
    case Form::Kind::name:
      return "the name of a " + form.what;
    case Form::Kind::entry:
      return "a list of " + form.what;
    default:
      return "a text";
  }
}

// The names that the program itself knows; others are those of files.
const std::vector<std::string>& known_names(const std::string& what) {
  static const std::map<std::string, std::vector<std::string>> all{{"schedule", schedule::registry().names()},
                                                                   {"topology", cluster::registry().names()},
                                                                   {"planner", reshard::registry().names()},
                                                                   {"method", balance::registry().names()}};
  static const std::vector<std::string> none;
  const auto found = all.find(what);
  return found == all.end() ? none : found->second;
}

// A share such as "2%" or 0.02.
std::optional<double> read_share(Diagnostics& problems, const Node& node, const std::string& what, const Form& form) {
  Node number = node;
  const bool percent = node.kind == Node::Kind::scalar && node.text.ends_with('%');
  if (percent) number.text.pop_back();
  const double whole = percent ? 100 : 1;
  const auto value = read_number(problems, number, what, {whole * form.low, whole * form.high, form.above});
  return value ? std::optional(*value / whole) : std::nullopt;
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
  const auto* items = read_items(problems, node, what, form);
  if (!items) return std::nullopt;
  form.list = false;
  std::vector<Value> values;
  for (const Node* item : *items)
    if (auto value = read_value(problems, *item, "an entry of " + what, form)) values.push_back(std::move(*value));
  return values.size() == items->size() ? std::optional<Value>(std::move(values)) : std::nullopt;
}

// One value or a list without repetition, in ascending order.
std::optional<Value> read_set(Diagnostics& problems, const Node& node, const std::string& what, Form form) {
  form.list = form.set = form.or_one = false;
  std::vector<const Node*> items{&node};
  if (node.kind == Node::Kind::sequence) items = node.items;
  const auto before = problems.count();
  if (items.empty())
    problems.error(node.where(), fmt::format("{} is an empty list, which leaves nothing to choose", what));
  std::vector<Value> values;
  for (const Node* item : items) {
    auto value = read_value(problems, *item, what, form);
    if (!value) continue;
    if (std::find(values.begin(), values.end(), *value) != values.end())
      problems.error(item->where(), fmt::format("{} lists {} twice", what, in_quotes(item->text)));
    values.push_back(std::move(*value));
  }
  // By number, by the order of the names, or by the alphabet.
  const auto rank = [&](const Value& value) {
    const auto* number = std::get_if<std::int64_t>(&value);
    const auto text = fields::written(value);
    const auto name = std::find(form.names.begin(), form.names.end(), text) - form.names.begin();
    return std::tuple(number ? *number : name, text);
  };
  std::sort(values.begin(), values.end(), [&](const Value& a, const Value& b) { return rank(a) < rank(b); });
  return problems.count() == before ? std::optional<Value>(std::move(values)) : std::nullopt;
}

}  // namespace

const std::vector<const Node*>* read_items(Diagnostics& problems, const Node& node, const std::string& what,
                                           const Form& form) {
  const bool list = node.kind == Node::Kind::sequence, named = form.kind != Form::Kind::name && !form.what.empty();
  if (list && !(named && node.items.empty())) return &node.items;
  problems.error(node.where(), fmt::format("{} must be a list{}; found {}", what, named ? " of " + form.what : "",
                                           list ? "an empty list" : describe(node)));
  return nullptr;
}

bool read_entry(Diagnostics& problems, const Node& node, const std::string& key, const Form& form, void* entry) {
  const auto before = problems.count();
  if (!form.row) {
    MapReader map(problems, node, key);
    map.fill(*form.of, entry);
    map.finish();
    return problems.count() == before;
  }
  const auto& fields = form.of->fields;
  const auto least = std::count_if(fields.begin(), fields.end(), [](const auto& f) { return f.required; });
  const auto size = std::ptrdiff_t(node.items.size());
  if (node.kind != Node::Kind::sequence || size < least || size > std::ptrdiff_t(fields.size())) {
    problems.error(node.where(), fmt::format("'{}' must be a list of {}; found {}", key, form.what, describe(node)));
    return false;
  }
  for (std::size_t i = 0; i < node.items.size(); ++i)
    if (const auto value =
            read_value(problems, *node.items[i], fmt::format("'{}' of '{}'", fields[i].key, key), fields[i].form))
      fields[i].set(entry, *value);
  return problems.count() == before;
}

std::optional<Value> read_value(Diagnostics& problems, const Node& node, const std::string& what, const Form& form) {
  if (form.or_one) return read_set(problems, node, what, form);
  if (form.each_once || form.set) return read_names(problems, node, what, form.names, form.each_once);
  if (form.list) return read_list(problems, node, what, form);
  const auto read = [&](auto reader, auto... more) -> std::optional<Value> {
    const auto value = reader(problems, node, what, more...);
    return value ? std::optional<Value>(*value) : std::nullopt;
  };
  if (const auto* measure = measure_of(form.kind)) {
    auto value = read_measure(problems, node, what, *measure);
    if (value && form.above && is_zero(*value)) problems.error(node.where(), what + " must be above zero");
    return value;
  }
  switch (form.kind) {
    case Form::Kind::boolean:
      return read(read_boolean);
    case Form::Kind::integer:
      return read(read_integer, integers(form));
    case Form::Kind::number:
      return read(read_number, NumberRange{form.low, form.high, form.above});
    case Form::Kind::share:
      return read(read_share, form);
    case Form::Kind::choice:
      if (const auto picked = read_choice(problems, node, what, form.names, form.planned))
        return Value(form.names[*picked]);
      return std::nullopt;
    case Form::Kind::name: {
      const auto value = read(read_text);
      const auto& names = known_names(form.what);
      if (!value || names.empty() ||
          std::find(names.begin(), names.end(), std::get<std::string>(*value)) != names.end())
        return value;
      const auto& name = std::get<std::string>(*value);
      problems.error(node.where(), fmt::format("unknown {} {}{}", form.what, in_quotes(name), suggestion(name, names)));
      return std::nullopt;
    }
    default:
      return read(read_text);
  }
}

std::optional<Value> MapReader::value(std::string_view key, const Form& form, bool required) {
  const Node* node = number_of(key, required, expected(form));
  return node ? read_value(problems_, *node, label(key), form) : std::nullopt;
}

void MapReader::fill(const fields::Description& description, void* object, Except except) {
  const auto before = problems_.unread();
  fill(description, object, "", except);
  if (problems_.unread() == before) check(description, object, "");
}

void MapReader::check(const fields::Description& description, const void* object, std::string_view mapping) {
  for (const auto& rule : description.rules)
    if (rule.key == mapping) rule.check(object, *this);
}

void MapReader::fill_given(const fields::Description& description, void* object) {
  std::string group;  // fields of a mapping stand together
  for (const auto& field : description.fields) {
    if (!field.key_of_files || !given(field.key)) continue;
    const auto dot = field.key.find('.');
    if (dot == std::string::npos)
      fill_field(field, object, field.key);
    else if (field.key.substr(0, dot) != group)
      fill_group(description, object, group = field.key.substr(0, dot), {});
  }
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
  for (const auto& [key, why] : description.misplaced)
    if (const auto name = own(key); name && find(*name)) refuse(*name, fmt::format("'{}' {}", *name, why));
}

// If the mapping is missing, its fields keep the struct's defaults.
bool MapReader::fill_group(const fields::Description& description, void* object, const std::string& key,
                           Except except) {
  const auto* group = description.group(key);
  const auto name = key.substr(key.rfind('.') + 1);  // npos + 1 = 0
  const Node* node = group && group->required ? require(name, group->help) : find(name);
  if (!node) return false;
  if (group && group->begin) group->begin(object);
  if (group && !group->short_for.empty() && node->kind != Node::Kind::map) {
    const auto& field = description.at(key + "." + group->short_for);
    if (const auto value = read_value(problems_, *node, label(name), field.form)) field.set(object, *value);
    return true;
  }
  // One source may cover all numbers of the mapping.
  Citations shared;
  if (citations_ && node->kind == Node::Kind::map && node->find("value")) {
    std::swap(shared, *citations_);
    node = uncited(name, node);
    std::swap(shared, *citations_);
    if (!node) return false;
  }
  const auto before = problems_.unread();
  MapReader below(problems_, *node, name);
  if (citations_) below.cite(*citations_, prefix_ + name + ".");
  below.fill(description, object, key + ".", except);
  for (const auto& read : except)  // read by the caller
    if (read.starts_with(key + ".")) below.find(read.substr(key.size() + 1));
  below.finish();
  if (problems_.unread() == before) below.check(description, object, key);
  if (citations_ && !(shared.sources.empty() && shared.assumed.empty() && shared.fitted.empty()))
    for (const auto& e : node->entries) {
      const auto path = prefix_ + name + "." + e.key->text;
      if (!shared.sources.empty()) citations_->sources.emplace(path, shared.sources.begin()->second);
      if (!shared.assumed.empty()) citations_->assumed.push_back(path);
      if (!shared.fitted.empty()) citations_->fitted.push_back(path);
    }
  return true;
}

void MapReader::fill_field(const fields::Field& field, void* object, std::string_view key) {
  if (!field.set && !field.append) return void(find(key));  // its own loader reads it (fields::opaque)
  const Node* node = nullptr;
  if (field.null && node_ && node_->find(key) && node_->find(key)->kind == Node::Kind::null)
    nullable(key);
  else
    node = number_of(key, field.required, expected(field.form));
  if (field.append) {
    if (const auto* items = node ? read_items(problems_, *node, label(key), field.form) : nullptr)
      for (const Node* item : *items) read_entry(problems_, *item, std::string(key), field.form, field.append(object));
    return;
  }
  const bool plain = node && node->kind == Node::Kind::scalar && !field.word.empty();
  if (plain && node->text == field.word) return field.set(object, field.word_means);
  if (plain && !field.form.list && node->text.find_first_of("0123456789") == std::string::npos) {
    problems_.error(node->where(), fmt::format("{} must be {}, or {}; found {}", label(key), expected(field.form),
                                               field.word, describe(*node)));
  } else if (node) {
    if (const auto value = read_value(problems_, *node, label(key), field.form)) try {
        return field.set(object, *value);
      } catch (const UserError& e) {
        problems_.error(node->where(), e.diagnostics()[0].message);
      }
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
