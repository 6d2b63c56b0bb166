#include "cli/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/error.hpp"

namespace rehearsal::cli {

std::size_t whole_number(std::string_view option, const std::string& text, std::size_t least, std::size_t most) {
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size() || number < least || number > most)
    throw UserError(
        fmt::format("{} must be a whole number from {} to {}, found '{}'", option, least, most, text.substr(0, 40)));
  return number;
}

std::optional<std::int64_t> world_size(const std::string& text) {
  constexpr std::size_t kMostGpus = 10'000'000;
  return text.empty() ? std::nullopt : std::optional(std::int64_t(whole_number("--world", text, 1, kMostGpus)));
}

unsigned number_of_jobs(const std::string& text, unsigned usual) {
  if (!text.empty()) return static_cast<unsigned>(whole_number("--jobs", text, 1, 1024));
  return usual > 0 ? usual : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace rehearsal::cli
