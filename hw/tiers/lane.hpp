// What a thread of its own does in the order in which it is asked to, so that copies run beside computing: a copy
// engine, or one direction of a disk.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
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
  // Whether it ended, well or not.
  bool ended(Number job) const;
  // Until it has ended; throws what it threw.
  void wait(Number job);

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::function<void()>> queue_;
  std::map<Number, std::exception_ptr> failed_;  // not asked for yet
  Number added_ = 0, ended_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rehearsal::tiers
