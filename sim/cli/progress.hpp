// A line on a terminal that follows long work; nothing where nobody looks.
#pragma once
#include <chrono>
#include <string>

namespace rehearsal::cli {

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(const std::string& what);
  // For those who would call many times a second: at most four times.
  bool due();

 private:
  const bool shown_;
  std::chrono::steady_clock::time_point next_{};
};

// "12 s", "7 min", "3.5 h": how long something takes, roughly.
std::string roughly(double seconds);

}  // namespace rehearsal::cli
