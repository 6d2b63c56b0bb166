// Files that appear whole: written under another name and renamed. Each has one writer.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace rehearsal::launch {

void write_whole(const std::filesystem::path& file, std::string_view bytes);  // throws MachineError
std::optional<std::string> read_whole(const std::filesystem::path& file);     // nothing where there is no such file

}  // namespace rehearsal::launch
