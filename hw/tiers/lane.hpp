// What a thread of its own does in the order in which it is asked to, so that copies run beside computing: a copy
// engine, or one direction of a disk.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace rehearsal::tiers {

class Lane {
 public:
  using Number = std::uint64_t;  // of a job, from 1 on

  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();  // ends the job under way; those that wait are forgotten

  // Begins later; the thread starts with the first.
  Number add(std::function<void()> job);
  // When it ended, well or not; nothing as long as it has not. Until it was waited for.
  using Instant = std::chrono::steady_clock::time_point;
  std::optional<Instant> ended(Number job) const;
  // Until it has ended; throws what it threw. Once for each.
  void wait(Number job);

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::function<void()>> queue_;
  std::map<Number, Instant> when_;               // ended, not waited for yet
  std::map<Number, std::exception_ptr> failed_;  // likewise
  Number added_ = 0, ended_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rehearsal::tiers
