#include <fmt/format.h>

#include "base/error.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {
namespace {

constexpr std::string_view kHome = "memory:", kEnding = ".yaml";

// A path below home and the same path without home are one key.
std::string key_of(std::string_view path) {
  if (path.starts_with(kHome)) path.remove_prefix(kHome.size());
  while (path.starts_with('/')) path.remove_prefix(1);
  return std::string(path);
}

}  // namespace

std::string MemoryFiles::read(const std::string& path, std::size_t limit) const {
  const auto found = texts_.find(key_of(path));
  if (found == texts_.end()) throw UserError(std::vector{Diagnostic{{path, 0, 0}, "is not among the files in memory"}});
  if (found->second.size() > limit)
    throw UserError(std::vector{Diagnostic{{path, 0, 0}, fmt::format("is larger than {} bytes", limit)}});
  return found->second;
}

bool MemoryFiles::exists(const std::string& path) const { return texts_.contains(key_of(path)); }

std::vector<std::string> MemoryFiles::names_in(const std::string& folder) const {
  const auto prefix = key_of(folder) + "/";
  std::vector<std::string> names;
  for (const auto& [path, text] : texts_) {
    if (!path.starts_with(prefix) || !path.ends_with(kEnding)) continue;
    auto name = path.substr(prefix.size(), path.size() - prefix.size() - kEnding.size());
    if (name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  return names;  // sorted, as the map is
}

std::string MemoryFiles::home() const { return std::string(kHome); }

}  // namespace rehearsal::scenario
