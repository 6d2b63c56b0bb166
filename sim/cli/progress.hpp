// How far a command is, for whoever waits (--progress): a line in its place on a terminal, lines of a log, JSON, or
// what a library's caller does with it. The work says where it stands, from any of its threads; a thread of the
// Progress looks there and shows it, so that a step that takes long is seen to be alive.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/json.hpp"
#include "cli/output.hpp"

namespace rehearsal::cli {

// Where a command stands at a time. Durations are seconds.
struct Standing {
  std::string what;                   // "rows"; without a total the work itself: "predicting"
  std::uint64_t done = 0, total = 0;  // of `what`; total 0: not known
  std::size_t part = 1, parts = 1;    // of the work, one after the other, each with a total of its own; 0: not known
  double elapsed = 0;                 // since the command began
  std::optional<double> left;         // of this part
  std::string note;                   // what else is known,
  Json figures;                       // and its numbers
  bool ended = false;                 // nothing follows

  std::optional<double> share() const;
};

// The time left by the speed of the last seconds, not by that from the start: what comes first is often quicker (it is
// kept already) or slower (it must be read).
class RecentRate {
 public:
  static constexpr double kWindow = 5;

  explicit RecentRate(double now) : seen_{{now, 0}} {}
  void look(double now, std::uint64_t done);
  // Nothing before something was done.
  std::optional<double> left(double now, std::uint64_t total) const;

 private:
  struct Seen {
    double at;
    std::uint64_t done;
  };
  std::deque<Seen> seen_;  // when more was first seen to be done; one of them is before the window
};

// "12 of 54 rows, 22 %, 8 s left; best 15 ms", in so many columns at most (0: any number).
std::string progress_text(const Standing& standing, int columns = 0);
std::string progress_json(const Standing& standing, const std::string& command);

class Progress {
 public:
  // `parts`: how often begin() is called; 0: not known. Not shown: of another rank.
  explicit Progress(const CommonOptions& common, std::size_t parts = 1, bool shown = true);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The next part. `expected`: seconds that it should take, used until its pace is known.
  void begin(std::string what, std::uint64_t total = 0, std::optional<double> expected = {});
  void done(std::uint64_t done, std::uint64_t total = 0);  // 0: the total stays
  void note(std::string text, Json figures = {});
  void conclude(const std::string& line);  // said besides to people who follow, and stays
  bool due();                              // whether a new note would be shown: for those that cost something to make

 private:
  using Clock = std::chrono::steady_clock;
  void follow();
  void show();
  bool show_or_not();
  double now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  const CommonOptions& common_;
  const Watching how_;
  const Clock::time_point began_ = Clock::now();
  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  Standing at_;
  RecentRate pace_{0};
  std::size_t begun_ = 0;
  double part_began_ = 0, next_note_ = 0;
  std::optional<double> expected_;
  bool said_ = false, concluded_ = false, ended_ = false;
  std::thread follower_;
};

inline constexpr std::size_t kMegabyte = 1'000'000;

// "12 s", "7 min", "3.5 h": a rough duration.
std::string roughly(double seconds);

}  // namespace rehearsal::cli
