#include "explore/sweep.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/parallel.hpp"

namespace rehearsal::explore {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr double kBatchSeconds = 1;      // target duration of a batch
constexpr std::size_t kLookedAt = 4096;  // most points of a transaction that only claims
constexpr auto kPause = 50ms, kLongestPause = 500ms;

// State shared by the threads of a process: the points that are left, and whether a thread has failed.
class Sweep {
 public:
  Sweep(store::Store& store, std::span<const store::Point> points, const SweepOptions& options, const Compute& compute,
        const Watch& watch)
      : store_(store), points_(points), options_(options), compute_(compute), watch_(watch), left_(points.size()) {
    std::iota(left_.begin(), left_.end(), std::size_t{0});
  }

  SweepState run() {
    std::jthread heart([&](const std::stop_token& stop) { beat(stop); });
    in_parallel(options_.jobs, options_.jobs, [&](std::size_t) { work(); });
    return state_;
  }

 private:
  void beat(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, store::kBeat, [] { return false; })) {
      if (stop.stop_requested()) return;
      try {
        store_.beat();
      } catch (const std::exception&) {  // the next commit meets the same problem and reports it
      }
    }
  }

  void work() {
    std::size_t size = 1;
    auto pause = std::chrono::milliseconds(kPause);
    try {
      for (;;) {
        const auto claims = claim(size);
        if (!claims) return;
        if (claims->empty()) {
          rest(pause);
          pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause);
          continue;
        }
        pause = kPause;
        const auto begin = Clock::now();
        batch(*claims);
        const double each = std::chrono::duration<double>(Clock::now() - begin).count() / double(claims->size());
        size = std::clamp(std::size_t(kBatchSeconds / std::max(each, 1e-6)), std::size_t{1}, options_.batch);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      failed_ = true;
      changed_.notify_all();
      throw;
    }
  }

  // Nothing: all points are done, or a thread has failed. An empty list: other processes hold the remaining points.
  std::optional<std::vector<store::Claims::Ours>> claim(std::size_t size) {
    const std::scoped_lock lock(mutex_);
    while (!failed_) {
      const bool again = left_.empty();
      if (again && taken_.empty()) return std::nullopt;
      if (again) left_.swap(taken_);
      auto claims = look(size);
      if (!claims.ours.empty()) return std::move(claims.ours);
      if (again && !taken_.empty()) return claims.ours;  // give other processes time for their points first
    }
    return std::nullopt;
  }

  store::Claims look(std::size_t size) {
    const std::size_t count = std::min(left_.size(), std::max(kLookedAt, size));
    const std::vector<std::size_t> candidates(left_.begin(), left_.begin() + std::ptrdiff_t(count));
    auto claims = store_.claim(points_, candidates, size);
    left_.erase(left_.begin(), left_.begin() + std::ptrdiff_t(claims.looked));
    taken_.insert(taken_.end(), claims.taken.begin(), claims.taken.end());
    return claims;
  }

  void rest(std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex_);
    watch_(state_);
    changed_.wait_for(lock, pause, [&] { return failed_; });
  }

  void batch(std::span<const store::Claims::Ours> claims) {
    std::vector<store::Row> rows;
    std::vector<store::Point> right;
    try {
      for (const auto& [index, held] : claims) {
        if (auto row = compute_(index, held))
          rows.push_back(std::move(*row));
        else
          right.push_back(points_[index]);
        const std::scoped_lock lock(mutex_);
        if (failed_) break;  // closing the store releases the remaining claims
        watch_(state_);
      }
    } catch (...) {
      store_.finish(rows, right);
      throw;
    }
    store_.finish(rows, right);
    const std::scoped_lock lock(mutex_);
    state_.computed += rows.size(), state_.kept += right.size();
    watch_(state_);
  }

  store::Store& store_;
  std::span<const store::Point> points_;
  const SweepOptions& options_;
  const Compute& compute_;
  const Watch& watch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> left_, taken_;  // taken: were claimed by other processes
  SweepState state_;
  bool failed_ = false;
};

}  // namespace

SweepState sweep(store::Store& store, std::span<const store::Point> points, const SweepOptions& options,
                 const Compute& compute, const Watch& watch) {
  return Sweep(store, points, options, compute, watch).run();
}

}  // namespace rehearsal::explore
