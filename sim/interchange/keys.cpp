#include "interchange/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/spelling.hpp"
#include "scenario/reader.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

const Node* at_path(const Node* map, std::string_view name) {
  while (map && map->kind == Node::Kind::map) {
    if (const Node* whole = map->find(name)) return whole;  // a key may have dots in it
    const auto dot = name.find('.');
    if (dot == std::string_view::npos) return nullptr;
    map = map->find(name.substr(0, dot)), name = name.substr(dot + 1);
  }
  return nullptr;
}

// What a script replaces before anybody reads the file: $NAME, ${NAME}, <name>, {{ name }}, CONFIG_NAME.
bool is_placeholder(std::string_view text) {
  const bool capitals = text.find('_') != text.npos && std::all_of(text.begin(), text.end(), [](unsigned char c) {
                          return std::isupper(c) || std::isdigit(c) || c == '_';
                        });
  return capitals || text.find('$') != text.npos || text.find("{{") != text.npos ||
         (text.starts_with('<') && text.ends_with('>'));
}

// Nothing, no, zero: what a list of everything says of what is not used.
bool is_off(const Node& node) {
  if (is_none(node)) return true;
  if (node.kind == Node::Kind::sequence) return node.items.empty();
  if (node.kind == Node::Kind::map) return node.entries.empty();
  return node.text.empty() || node.text == "[]" || node.text == "{}" || boolean_of(node.text) == false ||
         number_of(node.text) == 0.;
}

}  // namespace

std::optional<double> number_of(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != '_') plain += c;
  if (plain.starts_with('+')) plain.erase(0, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc() || end != plain.data() + plain.size() || plain.empty() || !std::isfinite(value)) return {};
  return value;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  const auto value = number_of(text);
  if (!value || std::floor(*value) != *value || std::abs(*value) > 9e15) return {};
  return std::int64_t(*value);
}

std::string small_letters(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = char(std::tolower(static_cast<unsigned char>(c)));
  return all;
}

std::optional<bool> boolean_of(std::string_view text) {
  const auto word = small_letters(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return {};
}

bool is_none(const Node& node) {
  return node.kind == Node::Kind::null ||
         (node.kind == Node::Kind::scalar && !node.quoted &&
          (node.text == "None" || node.text == "null" || node.text == "~" || node.text.empty()));
}

Json json_of(const Node& node) {
  if (is_none(node)) return nullptr;
  if (node.kind == Node::Kind::sequence) {
    auto list = Json::array();
    for (const Node* item : node.items) list.push_back(json_of(*item));
    return list;
  }
  if (node.kind == Node::Kind::map) {
    auto map = Json::object();
    for (const auto& [key, value] : node.entries) map.append(key->text, json_of(*value));
    return map;
  }
  if (!node.quoted) {
    if (const auto whole = integer_of(node.text)) return *whole;
    if (const auto real = number_of(node.text)) return *real;
    if (node.text == "true" || node.text == "True") return true;
    if (node.text == "false" || node.text == "False") return false;
  }
  return node.text;
}

void wrong(const Node& at, const std::string& message) { throw UserError({{at.where(), printable(message)}}); }

const Node& mapping_of(const Source& source) {
  if (source.tree && source.tree->kind == Node::Kind::map) return *source.tree;
  throw UserError({{{source.name, 1, 1},
                    fmt::format("must be a mapping in JSON, YAML or TOML; found {}",
                                source.tree ? scenario::describe(*source.tree) : "none of these")}});
}

Keys::Keys(ScenarioDraft& draft, const Node* map, std::string path, Spelling spelled)
    : draft_(draft), map_(map), path_(std::move(path)), spelled_(std::move(spelled)) {
  if (map_ && map_->kind != Node::Kind::map)
    wrong(*map_, fmt::format("'{}' must be a mapping; found {}", path_.substr(0, path_.size() - 1),
                             scenario::describe(*map_)));
}

bool Keys::has(std::string_view key) const {
  const Node* value = at_path(map_, key);
  return value && !is_none(*value);
}

std::optional<Said<const Node*>> Keys::node(Names names) {
  std::optional<Said<const Node*>> first;
  for (const auto name : names) {
    known_.emplace(name.substr(0, map_ && map_->find(name) ? name.size() : name.find('.')));
    if (const Node* value = at_path(map_, name); !first && value && !is_none(*value))
      first = Said<const Node*>{value, value, word(name)};
  }
  return first;
}

template <class T, class Read>
std::optional<Said<T>> Keys::read(Names names, const char* what, const Read& read) {
  const auto found = node(names);
  if (!found) return {};
  if (found->value->kind == Node::Kind::scalar)
    if (auto value = read(*found->value)) return Said<T>{std::move(*value), found->at, found->word};
  const bool filled_in = found->value->kind == Node::Kind::scalar && is_placeholder(found->value->text);
  wrong(*found->at,
        fmt::format(
            "'{}' must be {}; found {}{}", found->word, what, scenario::describe(*found->value),
            filled_in ? ", which a script fills in: put the value in its place, or give what the run resolved" : ""));
}

std::optional<Said<std::int64_t>> Keys::integer(Names names) {
  return read<std::int64_t>(names, "a whole number", [](const Node& node) { return integer_of(node.text); });
}
std::optional<Said<double>> Keys::number(Names names) {
  return read<double>(names, "a number", [](const Node& node) { return number_of(node.text); });
}
std::optional<Said<bool>> Keys::boolean(Names names) {
  return read<bool>(names, "true or false", [](const Node& node) { return boolean_of(node.text); });
}
std::optional<Said<std::string>> Keys::text(Names names) {
  return read<std::string>(names, "a text", [](const Node& node) { return std::optional(node.text); });
}

std::optional<Said<std::vector<const Node*>>> Keys::list(Names names) {
  const auto found = node(names);
  if (!found) return {};
  Said<std::vector<const Node*>> all{{}, found->at, found->word};
  if (found->value->kind == Node::Kind::sequence)
    all.value = found->value->items;
  else
    all.value.push_back(found->value);
  return all;
}

bool Keys::say_integer(const std::string& key, Names names) {
  const auto said = integer(names);
  if (said) draft_.say(key, said->value, *said->at, said->word);
  return said.has_value();
}
bool Keys::say_boolean(const std::string& key, Names names) {
  const auto said = boolean(names);
  if (said) draft_.say(key, said->value, *said->at, said->word);
  return said.has_value();
}
bool Keys::say(Fact fact, Names names) {
  const auto said = integer(names);
  if (said) draft_.say(fact, said->value, *said->at, said->word);
  return said.has_value();
}

Keys Keys::below(std::string_view key) {
  const auto found = node({key});
  return {draft_, found ? found->value : nullptr, path_ + std::string(key) + "."};
}

void Keys::ignore(Names names) {
  for (const auto name : names)
    if (name.ends_with('*'))
      ignored_.emplace_back(name.substr(0, name.size() - 1));
    else
      known_.emplace(name);
}

void Keys::no_word(std::string_view key, Names harmless, const std::string& why) {
  const auto found = node({key});
  if (!found) return;
  const bool scalar = found->value->kind == Node::Kind::scalar;  // quoted or not
  const auto text = scalar ? found->value->text : scenario::flow_text(*found->value);
  if (boolean_of(text) == false && harmless.size() == 0) return;
  for (const auto one : harmless)
    if (text == one) return;
  constexpr std::size_t kLongest = 60;
  draft_.no_word(found->at->where(),
                 found->word + ": " + (text.size() > kLongest ? text.substr(0, kLongest) + " ..." : text), why);
}

void Keys::finish(Listed listed) {
  if (!map_) return;
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [key, value] : map_->entries) {
    const auto& name = key->text;
    if (is_none(*value) || known_.contains(name) ||
        std::any_of(ignored_.begin(), ignored_.end(), [&name = name](const auto& p) { return name.starts_with(p); }))
      continue;
    if (listed == Listed::everything && is_off(*value)) continue;
    const auto near = nearest(name, known);
    draft_.not_understood(key->where(), word(name) + (near ? fmt::format("; did you mean '{}'?", word(*near)) : ""));
  }
}

}  // namespace rehearsal::interchange
