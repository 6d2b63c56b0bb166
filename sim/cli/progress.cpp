#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace rehearsal::cli {

Progress::Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::say(const std::string& what) {
  if (shown_) std::fputs(fmt::format("\r\033[K{}", what).c_str(), stderr), std::fflush(stderr);
}

bool Progress::due() {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now < next_) return false;
  next_ = now + std::chrono::milliseconds(250);
  return true;
}

std::string roughly(double seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace rehearsal::cli
