// Lists the contents of configs/ and models/zoo/ for `rehearse list`.
#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

std::string folder_of(const std::string& kind) {
  const std::vector<std::pair<std::string, std::string>> folders = {
      {"models", "models/zoo"},           {"clusters", "configs/clusters"},
      {"gpus", "configs/gpus"},           {"interconnects", "configs/interconnects"},
      {"libraries", "configs/libraries"}, {"frameworks", "configs/frameworks"}};
  std::vector<std::string> kinds;
  for (const auto& [name, folder] : folders) {
    if (name == kind) return folder;
    kinds.push_back(name);
  }
  throw UserError(fmt::format("cannot list {}{}", in_quotes(kind), suggestion(kind, kinds)));
}

std::string written(const Node& node) {
  if (node.kind == Node::Kind::scalar) return node.text;
  std::vector<std::string> parts;
  for (const auto* item : node.items) parts.push_back(written(*item));
  for (const auto& [key, value] : node.entries) parts.push_back(key->text + ": " + written(*value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// {value, source, assumed} is one constant; a mapping without `value` holds several; anything else is a constant
// without a source.
void collect(const Node& map, const std::string& prefix, std::vector<Constant>& all) {
  for (const auto& [key, value] : map.entries) {
    const std::string path = prefix + key->text;
    if (value->kind != Node::Kind::map) {
      all.push_back({path, written(*value), "", false});
    } else if (const Node* inner = value->find("value")) {
      const Node *source = value->find("source"), *assumed = value->find("assumed");
      const auto add = [&](const std::string& whose, const Node& node) {
        all.push_back({whose, written(node), source ? source->text : "", assumed && assumed->text == "true"});
      };
      if (inner->kind != Node::Kind::map) add(path, *inner);
      for (const auto& [part, number] : inner->entries) add(path + "." + part->text, *number);  // peak.bf16
    } else {
      collect(*value, path + ".", all);
    }
  }
}

}  // namespace

std::vector<Named> list(const std::string& kind, const Files& files) {
  const auto folder = folder_of(kind);
  Context context(files);
  std::vector<Named> all;
  for (const auto& entry : names_in(context, folder)) {
    const Node* file = context.documents.read_file(context.home + "/" + folder + "/" + entry + ".yaml");
    if (!file) continue;
    MapReader map(context.problems, *file, kind);
    all.push_back({entry, map.text("summary", ""), map.text("source", "")});
  }
  context.problems.throw_if_any();
  return all;
}

models::Transformer named_model(const std::string& name, const Files& files) {
  Context context(files);
  const Node* node = context.documents.read_text(name, name);
  const auto model = node ? load_model(context, *node) : std::nullopt;
  context.problems.throw_if_any();
  return *model;
}

std::vector<Constant> constants(const std::string& kind, const std::string& name, const Files& files) {
  const auto folder = folder_of(kind);
  Context context(files);
  const auto names = names_in(context, folder);
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw UserError(fmt::format("there is no {} among the {}{}", in_quotes(name), kind, suggestion(name, names)));
  std::vector<Constant> all;
  if (const Node* file = context.documents.read_file(context.home + "/" + folder + "/" + name + ".yaml"))
    collect(*file, "", all);
  std::erase_if(all, [](const Constant& c) { return c.key == "summary" || c.key == "source"; });
  if (kind == "gpus")
    for (auto& c : measured_constants(context, name)) all.push_back(std::move(c));
  context.problems.throw_if_any();
  return all;
}

}  // namespace rehearsal::scenario
