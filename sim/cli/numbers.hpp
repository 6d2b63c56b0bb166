// Parses whole numbers in options.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rehearsal::cli {

// Throws UserError that names the option and its range.
std::size_t whole_number(std::string_view option, const std::string& text, std::size_t least, std::size_t most);

// The value of --world, GPUs of a job; nothing if empty. Throws UserError.
std::optional<std::int64_t> world_size(const std::string& text);

// The value of --jobs: threads. If empty: `usual`, or one per core. Throws UserError.
unsigned number_of_jobs(const std::string& text, unsigned usual = 0);

}  // namespace rehearsal::cli
