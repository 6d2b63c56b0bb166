// The line that says how far a command is; nothing if nobody watches the session, or with --quiet.
#pragma once
#include <chrono>
#include <string>

#include "cli/output.hpp"

namespace rehearsal::cli {

class Progress {
 public:
  explicit Progress(const CommonOptions& common, bool shown = true);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(const std::string& what);
  // Limits frequent callers to four updates a second.
  bool due();

 private:
  Session& session_;
  const bool shown_;
  std::chrono::steady_clock::time_point next_{};
};

// "12 s", "7 min", "3.5 h": a rough duration.
std::string roughly(double seconds);

}  // namespace rehearsal::cli
