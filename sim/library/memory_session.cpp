#include "library/memory_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"

namespace rehearsal::library {
namespace {

namespace fs = std::filesystem;

std::string normal(const std::string& path) { return fs::path(path).lexically_normal().string(); }

}  // namespace

LaidOver::LaidOver(const std::map<std::string, std::string>& texts) {
  for (const auto& [path, text] : texts) texts_.emplace(normal(path), text);
}

const std::string* LaidOver::find(const std::string& path) const {
  const auto found = texts_.empty() ? texts_.end() : texts_.find(normal(path));
  return found == texts_.end() ? nullptr : &found->second;
}

std::string LaidOver::read(const std::string& path, std::size_t limit) const {
  const auto* text = find(path);
  if (!text) return scenario::disk().read(path, limit);
  if (text->size() > limit)
    throw UserError(
        std::vector{Diagnostic{{path, 0, 0}, fmt::format("is larger than {} MiB; this is no scenario", limit >> 20)}});
  return *text;
}

bool LaidOver::exists(const std::string& path) const { return find(path) || scenario::disk().exists(path); }

std::vector<std::string> LaidOver::names_in(const std::string& folder) const {
  auto names = scenario::disk().names_in(folder);
  const auto wanted = fs::path(normal(folder) + "/").lexically_normal().parent_path();
  for (const auto& [path, text] : texts_)
    if (const fs::path file(path); file.parent_path() == wanted && file.extension() == ".yaml")
      names.push_back(file.stem().string());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void MemorySession::write(cli::Stream to, std::string_view text) {
  const std::lock_guard lock(writing_);
  (to == cli::Stream::out ? out_ : err_) += text;
}

void MemorySession::progress(std::string_view line) {
  if (say_) say_(std::string(line).c_str());
}

}  // namespace rehearsal::library
