// Files that appear atomically: written under another name and renamed. Each has one writer.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace rehearsal::launch {

void write_whole(const std::filesystem::path& file, std::string_view bytes);  // throws MachineError
std::optional<std::string> read_whole(const std::filesystem::path& file);     // nothing when there is no such file

// Call after a failed system call: throws MachineError, "cannot write /tmp/x: No space left on device".
[[noreturn]] void fail(const std::string& what, const std::filesystem::path& file);

}  // namespace rehearsal::launch
