// Parts referred to by the name of their file in configs/ and models/zoo/.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/spelling.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// A file name without extension; it cannot lead out of its folder.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
         });
}

constexpr int kMostFiles = 8;  // of which one replaces keys of the next

const Node* base_of(Context& context, const Node& root, const std::string& folder, const std::string& what, int files);

// The root mapping of home/folder/name.yaml, or of a file of the user's own: "./mine.yaml".
const Node* named(Context& context, const Node& name, const std::string& folder, const std::string& what,
                  int files = 0) {
  if (name.kind != Node::Kind::scalar) {
    context.problems.error(name.where(), fmt::format("the {} must be a name; found {}", what, describe(name)));
    return nullptr;
  }
  const bool own = name.text.ends_with(".yaml") && name.text.find('/') != std::string::npos;
  const auto path = own ? beside(name, name.text) : context.home + "/" + folder + "/" + name.text + ".yaml";
  if (!own && (!is_name(name.text) || !context.files.exists(path))) {
    auto hint = suggestion(name.text, names_in(context, folder));
    if (hint.empty())
      hint = fmt::format("; 'rehearse list {}' has them all",
                         what == "model" ? "models" : folder.substr(folder.find('/') + 1));
    context.problems.error(name.where(), fmt::format("unknown {} {}{}", what, in_quotes(name.text), hint));
    return nullptr;
  }
  const Node* root = context.documents.read_file(path);
  if (root && root->kind != Node::Kind::map) {
    context.problems.error(root->where(),
                           fmt::format("must be a mapping of keys to values; found {}", describe(*root)));
    return nullptr;
  }
  return own && root ? base_of(context, *root, folder, what, files + 1) : root;
}

// A user's file may replace keys of another one, as a scenario may.
const Node* base_of(Context& context, const Node& root, const std::string& folder, const std::string& what, int files) {
  const Node* use = root.find("use");
  if (!use) return &root;
  if (files > kMostFiles) {
    context.problems.error(use->where(), fmt::format("more than {} files build on each other with 'use'", kMostFiles));
    return nullptr;
  }
  const Node* base = named(context, *use, folder, what, files);
  return base ? context.documents.overlay(base, &root) : nullptr;
}

}  // namespace

Location place_of(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (!path.empty()) {
    const auto key = path.substr(0, path.find('.'));
    const Node* next = node->kind == Node::Kind::map ? node->find(key) : nullptr;
    if (!next) break;
    node = next, path.remove_prefix(std::min(path.size(), key.size() + 1));
  }
  return node->where();
}

std::string beside(const Node& node, const std::string& name) {
  const std::string from = node.where().file;
  const std::filesystem::path path = name;
  return path.is_relative() && !from.starts_with("--") ? (std::filesystem::path(from).parent_path() / path).string()
                                                       : name;
}

const Node* name_at(Context& context, const Node& place, std::string name) {
  Node* node = context.documents.make(Node::Kind::scalar, place);
  node->text = std::move(name);
  return node;
}

std::vector<std::string> names_in(const Context& context, const std::string& folder) {
  return context.files.names_in(context.home + "/" + folder);
}

Part resolve(Context& context, const Node& node, const std::string& folder, const std::string& what) {
  if (node.kind != Node::Kind::map) return {named(context, node, folder, what), node.text, nullptr};
  const Node* use = node.find("use");
  if (!use) {
    const Node* name = node.find("name");
    return {&node, name && name->kind == Node::Kind::scalar ? name->text : "inline", nullptr};
  }
  const Node* base = named(context, *use, folder, what);
  if (!base) return {};
  const Node* merged = context.documents.overlay(base, &node);
  return {merged, use->text, base};
}

}  // namespace rehearsal::scenario
