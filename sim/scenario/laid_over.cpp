#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {
namespace {

namespace fs = std::filesystem;

std::string normal(const std::string& path) { return fs::path(path).lexically_normal().string(); }

}  // namespace

LaidOver::LaidOver(const std::map<std::string, std::string>& texts, const Files& behind) : behind_(behind) {
  for (const auto& [path, text] : texts) texts_.emplace(normal(path), text);
}

const std::string* LaidOver::find(const std::string& path) const {
  const auto found = texts_.empty() ? texts_.end() : texts_.find(normal(path));
  return found == texts_.end() ? nullptr : &found->second;
}

std::string LaidOver::read(const std::string& path, std::size_t limit) const {
  const auto* text = find(path);
  if (!text) return behind_.read(path, limit);
  if (text->size() > limit)
    throw UserError(std::vector{Diagnostic{
        {path, 0, 0}, fmt::format("is larger than {} MiB, the most that is read of such a file", limit >> 20)}});
  return *text;
}

bool LaidOver::exists(const std::string& path) const { return find(path) || behind_.exists(path); }

std::vector<std::string> LaidOver::names_in(const std::string& folder) const {
  auto names = behind_.names_in(folder);
  const auto wanted = fs::path(normal(folder) + "/").lexically_normal().parent_path();
  for (const auto& [path, text] : texts_)
    if (const fs::path file(path); file.parent_path() == wanted && file.extension() == ".yaml")
      names.push_back(file.stem().string());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace rehearsal::scenario
