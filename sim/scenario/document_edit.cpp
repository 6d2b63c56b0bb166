// Editing a tree: --set, and laying one mapping over another. Aliases may share nodes, so an edit copies the nodes
// along its path and leaves the old tree unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/json.hpp"
#include "scenario/document.hpp"
#include "scenario/renamed.hpp"

namespace rehearsal::scenario {
namespace {

// {value: {bf16: 312TFLOP/s, ...}, source: ...}: one source for all numbers of a mapping.
bool cites_all(const Node& node) {
  const Node* value = node.kind == Node::Kind::map ? node.find("value") : nullptr;
  return value && value->kind == Node::Kind::map;
}

// Keys whose plain name is short for a mapping that holds the name under another key.
struct Shorthand {
  std::string_view key, inner;
};
constexpr std::array kShorthands{Shorthand{"schedule", "name"},   Shorthand{"cluster", "use"},
                                 Shorthand{"model", "use"},       Shorthand{"framework", "use"},
                                 Shorthand{"recompute", "mode"},  Shorthand{"gpu", "use"},
                                 Shorthand{"collectives", "use"}, Shorthand{"interconnect", "use"}};

// The key above the value at the end of a path.
std::string above_value(std::string_view path) {
  if (path.ends_with(".use")) path.remove_suffix(4);
  return std::string(path.substr(path.rfind('.') + 1));
}

}  // namespace

std::string flow_text(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar: {
      const bool plain = !node.quoted && node.text.find_first_of("{}[],:#&*!|>'\"%@`\n\\ ") == std::string::npos;
      return plain && !node.text.empty() ? node.text : Json(node.text).dump();
    }
    case Node::Kind::sequence:
      for (const auto* item : node.items) text += (text.empty() ? "" : ", ") + flow_text(*item);
      return "[" + text + "]";
    case Node::Kind::map:
      for (const auto& [key, value] : node.entries)
        text += (text.empty() ? "" : ", ") + flow_text(*key) + ": " + flow_text(*value);
      return "{" + text + "}";
  }
  return text;
}

const Node* Documents::set(const Node* root, const std::vector<std::string>& assignments) {
  for (const auto& assignment : assignments)
    if (root) root = set(root, assignment);
  return root;
}

std::string set_origin(const std::string& assignment) { return "--set " + assignment.substr(0, 200); }

const Node* Documents::set(const Node* root, const std::string& assignment) {
  const auto equals = assignment.find('=');
  const std::string origin = set_origin(assignment);
  const auto complain = [&](std::string message) { return problems_.error({origin, 0, 0}, std::move(message)), root; };
  if (equals == std::string::npos || equals == 0) return complain("write KEY=VALUE, for example batch.micro=2");
  std::string_view path = std::string_view(assignment).substr(0, equals);
  if (path.starts_with('.') || path.ends_with('.') || path.find("..") != std::string_view::npos ||
      std::count(path.begin(), path.end(), '.') > 16)
    return complain(
        fmt::format("{} is not a path of keys; write KEY=VALUE, for example batch.micro=2", in_quotes(path)));
  const std::string value_text = assignment.substr(equals + 1);
  const std::string today = path_of_today(path), above = above_value(today);
  if (today != path)
    problems_.warn({origin, 0, 0}, fmt::format("'{}' is called '{}' now; the old name is read for good", path, today));
  path = today;
  const auto dot = path.find('.');
  const auto assigned = [&](const Node& value) {
    const Node* changed =
        assign(root, path.substr(0, dot), dot == std::string_view::npos ? "" : path.substr(dot + 1), value, 0);
    return changed ? changed : root;
  };
  Diagnostics inner;
  Documents reader(inner, files_);  // only checks that the value is YAML; errors name the option, not a line
  if (value_text.find_first_not_of(" \t\n") == std::string::npos) return complain("has no value after '='");
  if (const auto first = value_text.find_first_not_of(" "), last = value_text.find_last_not_of(" ");
      value_text.substr(first, last - first + 1) == "null") {
    Node* nothing = make(Node::Kind::null, *read_text("{}", origin));
    nothing->line = nothing->column = 0;
    return assigned(*nothing);
  }
  reader.read_text(value_text, origin, above);
  if (inner.count()) return complain(inner.errors()[0].message);
  const auto before = nodes_.size();
  const Node* value = read_text(value_text, origin, above);
  for (auto i = before; i < nodes_.size(); i++) nodes_[i].line = nodes_[i].column = 0;
  return assigned(*value);
}

// A copy of `node` in which `key`(.`rest`) is `value`.
const Node* Documents::assign(const Node* node, std::string_view key, std::string_view rest, const Node& value,
                              int depth) {
  const auto descend = [&](const Node* child, std::string_view child_key) -> const Node* {
    if (rest.empty()) return &value;
    const auto dot = rest.find('.');
    const auto next = rest.substr(0, dot), after = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    if (child && child->kind == Node::Kind::scalar) {
      const auto s = std::find_if(kShorthands.begin(), kShorthands.end(), [&](auto& x) { return x.key == child_key; });
      Node* expanded = make(Node::Kind::map, s == kShorthands.end() ? value : *child);
      if (s != kShorthands.end()) {
        Node* inner_key = make(Node::Kind::scalar, *child);
        inner_key->text = s->inner;
        expanded->entries.push_back({inner_key, child});
      }
      child = expanded;
    }
    return assign(child, next, after, value, depth + 1);
  };

  if (node && node->kind == Node::Kind::sequence) {
    std::size_t index = 0;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (problem != std::errc{} || end != key.data() + key.size() || index >= node->items.size()) {
      problems_.error(value.where(), fmt::format("{} is not an entry of this list of {}; entries are counted from 0",
                                                 in_quotes(key), node->items.size()));
      return node;
    }
    Node* copy = make(Node::Kind::sequence, *node);
    copy->items = node->items;
    copy->items[index] = descend(node->items[index], "");
    return copy;
  }
  if (node && cites_all(*node) && !node->find(key)) node = cited_one_by_one(*node);
  Node* copy = make(Node::Kind::map, node ? *node : value);
  if (node) copy->entries = node->entries;
  // Null leaves out a key that is there, except beside `use`, where it stands against what is used.
  if (rest.empty() && value.kind == Node::Kind::null && !copy->find("use") &&
      std::erase_if(copy->entries, [&](const Entry& e) { return e.key->text == key; }) > 0)
    return copy;
  for (auto& e : copy->entries) {
    if (e.key->text != key) continue;
    e.value = descend(e.value, key);
    return copy;
  }
  Node* new_key = make(Node::Kind::scalar, value);
  new_key->text = key;
  copy->entries.push_back({new_key, descend(nullptr, key)});
  return copy;
}

// The same numbers with the source repeated at each, so that a single one can be replaced.
const Node* Documents::cited_one_by_one(const Node& all) {
  Node* numbers = make(Node::Kind::map, all);
  for (const auto& e : all.find("value")->entries) {
    Node* number = make(Node::Kind::map, *e.value);
    for (const auto& said : all.entries)
      number->entries.push_back({said.key, said.key->text == "value" ? e.value : said.value});
    numbers->entries.push_back({e.key, number});
  }
  return numbers;
}

const Node* Documents::overlay(const Node* base, const Node* over) {
  // A cited number ({value, source}) is replaced as a whole: the source belonged to the old number.
  if (base->kind != Node::Kind::map || over->kind != Node::Kind::map || over->find("value")) return over;
  if (cites_all(*base)) base = cited_one_by_one(*base);
  Node* merged = make(Node::Kind::map, *over);
  merged->entries = base->entries;
  for (const auto& e : over->entries) {
    const auto old = std::find_if(merged->entries.begin(), merged->entries.end(),
                                  [&](const Entry& x) { return x.key->text == e.key->text; });
    if (old == merged->entries.end()) {
      merged->entries.push_back(e);
      continue;
    }
    // `gpu: a100` below, `gpu: {memory: 40GB}` above: an A100 with another memory size.
    const Node* value = overlay(old->value, e.value);
    // An interconnect of another kind is the exception: it takes the constants of its own kind.
    const auto& part = e.key->text;
    const bool replaces = part == "gpu" || part == "collectives" ||
                          (part == "interconnect" && !(value->kind == Node::Kind::map && value->find("kind")));
    if (replaces && old->value->kind == Node::Kind::scalar && value->kind == Node::Kind::map && !value->find("use")) {
      Node* use = make(Node::Kind::scalar, *old->value);
      use->text = "use";
      Node* changed = make(Node::Kind::map, *value);
      changed->entries = value->entries;
      changed->entries.push_back({use, old->value});
      value = changed;
    }
    *old = {e.key, value};
  }
  return merged;
}

}  // namespace rehearsal::scenario
