#include "published/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/quantity_text.hpp"
#include "scenario/reader.hpp"

namespace rehearsal::published {
namespace {

constexpr const char* kFile = "/configs/published_runs.yaml";
constexpr std::string_view kAfter = "number after ", kIn = "number in ";

bool is_number(const std::string& text) {
  try {
    parse_number(text);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

bool above(const std::string& cell, const std::string& bound) {
  if (cell.empty() || !std::isdigit(static_cast<unsigned char>(cell[0]))) return false;
  return parse_number(cell.substr(0, cell.find_first_not_of("0123456789."))) > parse_number(bound);
}

bool meets(const std::string& pattern, const std::string& cell) {
  if (pattern.starts_with('^')) return cell.starts_with(pattern.substr(1));
  if (pattern.starts_with('=')) return cell == pattern.substr(1);
  if (pattern.starts_with('>')) return above(cell, pattern.substr(1));
  return cell.find(pattern) != std::string::npos;
}

bool applies(const Rule& rule, const Run& run, const std::string& framework) {
  return std::all_of(rule.when.begin(), rule.when.end(), [&](const Condition& c) {
    const auto column = c.column.substr(c.column.starts_with('!'));
    return fits(c, column == "software" ? framework : run.cell(column));
  });
}

// The value of a setting in a row; nothing if the row does not print what it asks for.
std::optional<std::string> said(const std::string& value, const Run& run) {
  const auto leading = [](const std::string& text) {
    const auto length = std::min(text.find_first_not_of("0123456789."), text.size());
    return length > 0 ? std::optional(text.substr(0, length)) : std::nullopt;
  };
  if (value.starts_with(kIn)) return leading(run.cell(value.substr(kIn.size())));
  constexpr std::string_view kOf = " in ";
  const auto in = value.rfind(kOf);
  if (!value.starts_with(kAfter) || in == std::string::npos) return value;
  const auto word = value.substr(kAfter.size(), in - kAfter.size());
  const auto cell = run.cell(value.substr(in + kOf.size()));
  auto at = cell.find(word + " ");
  if (at == std::string::npos) at = cell.find(word + "=");  // as options are written
  if (at == std::string::npos) return std::nullopt;
  return leading(cell.substr(at + word.size() + 1));
}

bool asks_for_framework(const Rule& rule) {
  return std::any_of(rule.when.begin(), rule.when.end(), [](const Condition& c) { return c.column == "software"; });
}

std::vector<std::string> texts_of(scenario::Diagnostics& problems, const scenario::Node& node) {
  std::vector<std::string> texts;
  const auto add = [&](const scenario::Node& item) {
    if (item.kind != scenario::Node::Kind::scalar)
      return problems.error(item.where(), "a pattern is a text, found " + scenario::describe(item));
    if (item.text.starts_with('>') && !is_number(item.text.substr(1)))
      return problems.error(item.where(), "'>' needs a number, found " + scenario::in_quotes(item.text));
    texts.push_back(lower(item.text));
  };
  if (node.kind == scenario::Node::Kind::sequence)
    for (const auto* item : node.items) add(*item);
  else
    add(node);
  return texts;
}

Rule read_rule(scenario::Diagnostics& problems, const scenario::Node& node) {
  scenario::MapReader map(problems, node, "rule");
  Rule rule;
  const auto* when = map.require("when", "the columns that a row must have");
  if (when && when->kind == scenario::Node::Kind::map) {
    for (const auto& [key, value] : when->entries) rule.when.push_back({key->text, texts_of(problems, *value)});
  } else if (when) {
    problems.error(when->where(), "'when' is a mapping of columns to patterns");
  }
  rule.cluster = map.text("cluster", ""), rule.gpu = map.text("gpu", "");
  rule.gpus_per_node = map.integer("gpus_per_node", {0, 1024}, 0);
  rule.framework = map.text("software", ""), rule.not_judged = map.text("not_judged", "");
  rule.not_timed = map.text("not_timed", ""), rule.peak_rank = map.text("peak_rank", "");
  if (const auto* rank = map.find("peak_rank"); rank && rule.peak_rank != "first" && rule.peak_rank != "last")
    problems.error(rank->where(), "'peak_rank' is first or last, found " + scenario::in_quotes(rule.peak_rank));
  rule.fine_tuning = map.boolean("fine_tuning", false);
  if (map.given("head_dim")) rule.head_dim = map.integer("head_dim", {1, 1024});
  map.text("source", "");
  for (const auto& [name, settings] : {std::pair{"set", &rule.set}, {"over", &rule.over}})
    if (const auto* set = map.find(name))
      for (const auto& [key, value] : set->entries)
        settings->emplace_back(key->text, value->text.starts_with(kAfter) || value->text.starts_with(kIn)
                                              ? value->text
                                              : scenario::flow_text(*value));
  map.finish();
  return rule;
}

}  // namespace

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool fits(const Condition& condition, const std::string& cell) {
  const bool one = std::any_of(condition.patterns.begin(), condition.patterns.end(),
                               [&](const auto& pattern) { return meets(pattern, lower(cell)); });
  return one != condition.column.starts_with('!');
}

Mapped Mapping::of(const Run& run) const {
  Mapped mapped;
  mapped.cluster = run.cluster, mapped.framework = run.profile;
  if (mapped.framework.empty() && frameworks_.count(run.framework) > 0) mapped.framework = run.framework;
  mapped.gpus_per_node = run.gpus_per_node.value_or(8);
  for (const auto& rule : rules_) {
    if (!applies(rule, run, mapped.framework)) continue;
    if (mapped.not_judged.empty()) mapped.not_judged = rule.not_judged;
    if (mapped.not_timed.empty()) mapped.not_timed = rule.not_timed;
    if (mapped.peak_rank.empty()) mapped.peak_rank = rule.peak_rank;
    mapped.fine_tuning |= rule.fine_tuning;
    if (mapped.cluster.empty() && !rule.cluster.empty()) {
      mapped.cluster = rule.cluster, mapped.gpu = rule.gpu;
      mapped.gpus_per_node = rule.gpus_per_node ? rule.gpus_per_node : 8;
    }
    if (mapped.framework.empty() || asks_for_framework(rule))
      if (!rule.framework.empty()) mapped.framework = rule.framework;
    mapped.head_dim = rule.head_dim.value_or(mapped.head_dim);
    for (const auto& [from, to] : {std::pair{&rule.set, &mapped.set}, {&rule.over, &mapped.over}})
      for (const auto& [key, value] : *from)
        if (const auto printed = said(value, run)) to->emplace_back(key, *printed);
  }
  return mapped;
}

Mapping read_mapping(const scenario::Files& files) {
  scenario::Diagnostics problems;
  scenario::Documents documents(problems, files);
  std::vector<Rule> rules;
  if (const auto* root = documents.read_file(files.home() + kFile)) {
    scenario::MapReader file(problems, *root, "");
    if (const auto* list = file.require("rules", "a list of rules"))
      for (const auto* item : list->items) rules.push_back(read_rule(problems, *item));
    file.finish();
  }
  problems.throw_if_any();
  const auto names = files.names_in(files.home() + "/configs/frameworks");
  return Mapping(std::move(rules), {names.begin(), names.end()});
}

}  // namespace rehearsal::published
