#include "cli/threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/error.hpp"

namespace rehearsal::cli {

unsigned number_of_jobs(const std::string& text) {
  if (text.empty()) return std::max(1u, std::thread::hardware_concurrency());
  unsigned jobs = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), jobs);
  if (problem != std::errc{} || end != text.data() + text.size() || jobs < 1 || jobs > 1024)
    throw UserError(fmt::format("--jobs must be a whole number from 1 to 1024, found '{}'", text.substr(0, 40)));
  return jobs;
}

}  // namespace rehearsal::cli
