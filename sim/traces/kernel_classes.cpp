#include "traces/kernel_classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "scenario/reader.hpp"

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
  const auto* list = top.require("rules", "a list of rules");
  top.finish();
  if (list && list->kind != Node::Kind::sequence) problems.error(list->where(), "'rules' is a list of mappings");
  problems.throw_if_any();
  std::vector<std::string> kinds;
  for (const auto& row : kKindTable) kinds.emplace_back(row.name);
  for (const Node* item : list->items) {
    scenario::MapReader map(problems, *item, "rule");
    const auto name = map.text("class");
    const auto* said = map.require("kind", "what it is compared with");
    const auto chosen = said ? scenario::read_choice(problems, *said, "'kind'", kinds, {}) : std::nullopt;
    const Node *has = map.find("has"), *like = map.find("like");
    map.finish();
    Rule rule;
    if (has) {
      if (has->kind != Node::Kind::sequence) problems.error(has->where(), "'has' is a list of texts");
      for (const Node* text : has->items) rule.has.push_back(lower(text->text));
    }
    if (like) {
      try {
        rule.like.emplace(like->text, std::regex::ECMAScript | std::regex::icase | std::regex::optimize);
      } catch (const std::regex_error& wrong) {
        problems.error(like->where(), fmt::format("'like' is no regular expression: {}", wrong.what()));
      }
    }
    if (rule.has.empty() && !like) problems.error(item->where(), "a rule needs 'has' or 'like'");
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
  problems.throw_if_any();
}

std::uint32_t KernelClasses::of(std::string_view kernel) const {
  const auto small = lower(kernel);
  for (const auto& rule : rules_) {
    if (std::any_of(rule.has.begin(), rule.has.end(),
                    [&](const std::string& text) { return small.find(text) != small.npos; }))
      return rule.number;
    if (rule.like && std::regex_search(small, *rule.like)) return rule.number;
  }
  return kUnknown;
}

}  // namespace rehearsal::traces
