// A thread that runs jobs in the order added, so that copies run concurrently with compute: like a copy engine, or one
// direction of a disk.
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
  using Number = std::uint64_t;  // number of a job, from 1 on

  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();  // ends the running job; waiting jobs are dropped

  // Queues a job; the first one starts the thread.
  Number add(std::function<void()> job);
  // When the job ended, successfully or not; nothing while it has not. Valid until wait() was called for it.
  using Instant = std::chrono::steady_clock::time_point;
  std::optional<Instant> ended(Number job) const;
  // Waits for the end of the job, and throws the exception that it threw. Once per job.
  void wait(Number job);

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::function<void()>> queue_;
  std::map<Number, Instant> when_;               // ended, but not waited for yet
  std::map<Number, std::exception_ptr> failed_;  // as when_: failed jobs
  Number added_ = 0, ended_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rehearsal::tiers
