// A progress line on a terminal; nothing if the output is not a terminal.
#pragma once
#include <chrono>
#include <string>

namespace rehearsal::cli {

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(const std::string& what);
  // Limits frequent callers to four updates a second.
  bool due();

 private:
  const bool shown_;
  std::chrono::steady_clock::time_point next_{};
};

// "12 s", "7 min", "3.5 h": a rough duration.
std::string roughly(double seconds);

}  // namespace rehearsal::cli
