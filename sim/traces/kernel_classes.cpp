#include "traces/kernel_classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rehearsal::traces {
namespace {

using scenario::Node;

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = char(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

}  // namespace

KernelClasses::KernelClasses(const scenario::Files& files) {
  scenario::Diagnostics problems;
  scenario::Documents documents(problems, files);
  const auto* root = documents.read_file(files.home() + "/configs/kernel_classes.yaml");
  problems.throw_if_any();
  scenario::MapReader top(problems, *root, "");
  const auto* kernels = top.require("rules", "a list of rules");
  const auto* ranges = top.require("ranges", "a list of rules");
  top.finish();
  for (const auto* list : {kernels, ranges})
    if (list && list->kind != Node::Kind::sequence) problems.error(list->where(), "rules are a list of mappings");
  problems.throw_if_any();
  read_classes(problems, *kernels);
  read_ranges(problems, *ranges);
  problems.throw_if_any();
}

KernelClasses::Pattern KernelClasses::read_pattern(scenario::Diagnostics& problems, scenario::MapReader& map) {
  const Node *has = map.find("has"), *like = map.find("like");
  Pattern pattern;
  if (has && has->kind != Node::Kind::sequence) problems.error(has->where(), "'has' is a list of texts");
  if (has)
    for (const Node* text : has->items) pattern.has.push_back(lower(text->text));
  if (like) {
    try {
      pattern.like.emplace(like->text, std::regex::ECMAScript | std::regex::icase | std::regex::optimize);
    } catch (const std::regex_error& wrong) {
      problems.error(like->where(), fmt::format("'like' is no regular expression: {}", wrong.what()));
    }
  }
  if (pattern.has.empty() && !like) problems.error(map.at(""), "a rule needs 'has' or 'like'");
  return pattern;
}

void KernelClasses::read_classes(scenario::Diagnostics& problems, const Node& list) {
  std::vector<std::string> kinds;
  for (const auto& row : kKindTable) kinds.emplace_back(row.name);
  for (const Node* item : list.items) {
    scenario::MapReader map(problems, *item, "rule");
    const auto name = map.text("class");
    const auto* said = map.require("kind", "what it is compared with");
    const auto chosen = said ? scenario::read_choice(problems, *said, "'kind'", kinds, {}) : std::nullopt;
    Rule rule{0, read_pattern(problems, map)};
    map.finish();
    if (!chosen) continue;
    const auto kind = kKindTable[*chosen].kind;
    const auto known = std::find_if(classes_.begin(), classes_.end(), [&](const Class& c) { return c.name == name; });
    rule.number = std::uint32_t(known - classes_.begin());
    if (known == classes_.end())
      classes_.push_back({name, kind});
    else if (known->kind != kind)
      problems.error(said->where(),
                     fmt::format("class '{}' is of kind {} in a rule above", name, info(known->kind).name));
    rules_.push_back(std::move(rule));
  }
}

void KernelClasses::read_ranges(scenario::Diagnostics& problems, const Node& list) {
  std::vector<std::string> passes;
  for (std::size_t i = 0; i < kPasses; ++i) passes.emplace_back(traces::name(static_cast<Pass>(i)));
  for (const Node* item : list.items) {
    scenario::MapReader map(problems, *item, "rule");
    const auto* said = map.require("pass", "what it is part of");
    const auto chosen = said ? scenario::read_choice(problems, *said, "'pass'", passes, {}) : std::nullopt;
    const auto group = map.integer("microbatch", {0, 9}, 0);
    RangeRule rule{Pass::unknown, std::size_t(group), read_pattern(problems, map)};
    if (group > 0 && (!rule.pattern.like || rule.pattern.like->mark_count() < rule.microbatch))
      problems.error(map.at("microbatch"), fmt::format("'like' has no group {}, which the number would be", group));
    map.finish();
    if (chosen) rule.pass = static_cast<Pass>(*chosen);
    ranges_.push_back(std::move(rule));
  }
}

bool KernelClasses::Pattern::fits(const std::string& lower, std::smatch& parts) const {
  return std::any_of(has.begin(), has.end(), [&](const std::string& text) { return lower.find(text) != lower.npos; }) ||
         (like && std::regex_search(lower, parts, *like));
}

std::uint32_t KernelClasses::of(std::string_view kernel) const {
  const auto small = lower(kernel);
  std::smatch parts;
  for (const auto& rule : rules_)
    if (rule.pattern.fits(small, parts)) return rule.number;
  return kUnknown;
}

std::optional<Label> KernelClasses::range(std::string_view name) const {
  const auto small = lower(name);
  std::smatch parts;
  for (const auto& rule : ranges_) {
    if (!rule.pattern.fits(small, parts)) continue;
    Label label{rule.pass, graph::kNoMicrobatch};
    if (rule.microbatch > 0 && rule.microbatch < parts.size()) {
      const auto digits = parts[rule.microbatch].str();
      std::uint32_t number = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc())
        label.microbatch = number;
    }
    if (label == Label{}) return std::nullopt;
    return label;
  }
  return std::nullopt;
}

}  // namespace rehearsal::traces
