// Where configs/ and models/zoo/ lie, and the parts that are named by their file there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/spelling.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace fs = std::filesystem;
namespace {

bool is_home(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path / "configs" / "clusters", ignored) && fs::is_directory(path / "models" / "zoo", ignored);
}

// A name is a file name without its ending; it never leads out of its folder.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
         });
}

// The root mapping of home/folder/name.yaml.
const Node* named(Context& context, const Node& name, const std::string& folder, const std::string& what) {
  if (name.kind != Node::Kind::scalar) {
    context.problems.error(name.where(), fmt::format("the {} must be a name; found {}", what, describe(name)));
    return nullptr;
  }
  const auto path = context.home + "/" + folder + "/" + name.text + ".yaml";
  if (!is_name(name.text) || ::access(path.c_str(), F_OK) != 0) {
    const auto names = names_in(context.home, folder);
    context.problems.error(name.where(),
                           fmt::format("unknown {} {}{}", what, in_quotes(name.text), suggestion(name.text, names)));
    return nullptr;
  }
  const Node* root = context.documents.read_file(path);
  if (root && root->kind != Node::Kind::map) {
    context.problems.error(root->where(),
                           fmt::format("must be a mapping of keys to values; found {}", describe(*root)));
    return nullptr;
  }
  return root;
}

}  // namespace

std::string home() {
  if (const char* given = std::getenv("REHEARSAL_HOME"); given && *given) {
    if (is_home(given)) return given;
    throw UserError(std::vector{Diagnostic{
        {"REHEARSAL_HOME", 0, 0},
        fmt::format("{} holds no configs/clusters and models/zoo; unset it or correct it", in_quotes(given))}});
  }
  std::array<char, 4096> buffer;
  const auto length = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (length > 0)
    for (fs::path up = fs::path(std::string(buffer.data(), static_cast<std::size_t>(length))).parent_path();;
         up = up.parent_path()) {
      if (is_home(up)) return up.string();
      if (is_home(up / "share" / "rehearsal")) return (up / "share" / "rehearsal").string();
      if (up == up.parent_path()) break;
    }
  const auto source_tree = fs::path(__FILE__).parent_path().parent_path().parent_path();
  if (is_home(source_tree)) return source_tree.string();
  throw UserError("cannot find the folder with configs/ and models/zoo/; set REHEARSAL_HOME to it");
}

std::vector<std::string> names_in(const std::string& home, const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(fs::path(home) / folder, ignored))
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
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
