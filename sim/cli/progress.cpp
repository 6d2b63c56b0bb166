#include "cli/progress.hpp"

#include <fmt/format.h>

namespace rehearsal::cli {

Progress::Progress(const CommonOptions& common, bool shown)
    : session_(common.session), shown_(shown && !common.quiet && session_.watched()) {}

Progress::~Progress() {
  if (shown_) session_.progress("");
}

void Progress::say(const std::string& what) {
  if (shown_) session_.progress(what);
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
