#include "tiers/lane.hpp"

#include <utility>

#include "base/error.hpp"

namespace rehearsal::tiers {

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Lane::Number Lane::add(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  queue_.push_back(std::move(job));
  wake_.notify_one();
  return ++added_;
}

std::optional<Lane::Instant> Lane::ended(Number job) const {
  const std::lock_guard lock(mutex_);
  const auto found = when_.find(job);
  return found == when_.end() ? std::nullopt : std::optional(found->second);
}

void Lane::wait(Number job) {
  std::unique_lock lock(mutex_);
  INVARIANT(job >= 1 && job <= added_, "a job that was added is waited for");
  done_.wait(lock, [&] { return job <= ended_; });
  when_.erase(job);
  if (const auto failed = failed_.find(job); failed != failed_.end()) {
    const auto error = failed->second;
    failed_.erase(failed);
    std::rethrow_exception(error);
  }
}

void Lane::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const auto job = std::move(queue_.front());
    queue_.pop_front();
    std::exception_ptr error;
    lock.unlock();
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    when_.emplace(++ended_, std::chrono::steady_clock::now());
    if (error) failed_.emplace(ended_, error);
    done_.notify_all();
  }
}

}  // namespace rehearsal::tiers
