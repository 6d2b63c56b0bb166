#include "explore/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "base/sha256.hpp"

namespace rehearsal::explore {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kCommit = 1s;  // rows are written about so often
// A batch is a small share of the points that follow, so that the last ones are single points and nobody waits long.
constexpr std::size_t kShare = 128, kLargest = 32;
constexpr auto kPause = 50ms, kLongestPause = 500ms;
constexpr std::size_t kHeld = std::size_t(-1);

// State shared by the threads of a process: the batches that are left, and whether a thread has failed.
class Sweep {
 public:
  Sweep(store::Store& store, store::Claims& claims, std::span<const store::Point> points, const SweepOptions& options,
        const Compute& compute, const Watch& watch)
      : store_(store), claims_(claims), points_(points), options_(options), compute_(compute), watch_(watch) {
    std::set<store::Point> met;
    for (std::size_t i = 0; i < points.size(); i++)
      if (met.insert(points[i]).second) order_.push_back(i);
    for (std::size_t at = 0; at < order_.size(); at = begins_.back())
      begins_.push_back(at + std::clamp((order_.size() - at) / kShare, std::size_t{1}, kLargest));
    begins_.insert(begins_.begin(), 0);
    const auto batches = begins_.size() - 1;
    for (std::size_t i = 0; i < options.parts; i++)
      for (auto b = (options.part + i) % options.parts; b < batches; b += options.parts) left_.push_back(b);
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
        claims_.beat();
      } catch (const std::exception&) {  // the next batch meets the same problem and reports it
      }
    }
  }

  // What a thread has computed and not written yet.
  struct Pending {
    std::vector<store::Row> rows;
    std::size_t kept = 0;
    std::vector<std::size_t> batches;  // finished ones
    Clock::time_point since = Clock::now();
  };

  void work() {
    Pending pending;
    auto pause = std::chrono::milliseconds(kPause);
    try {
      while (const auto batch = claim()) {
        if (*batch != kHeld) {
          perform(*batch, pending);
          pause = kPause;
          continue;
        }
        write(pending);
        if (!options_.wait) return;
        rest(pause);
        pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause);
      }
      write(pending);
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        failed_ = true;
        changed_.notify_all();
      }
      write(pending);
      throw;
    }
  }

  // Nothing: all points are done, or a thread has failed. kHeld: other processes hold the remaining batches.
  std::optional<std::size_t> claim() {
    using State = store::Claims::State;
    const std::scoped_lock lock(mutex_);
    for (bool again = left_.empty();; again = true) {
      if (again) left_.swap(taken_);
      while (!left_.empty() && !failed_) {
        const auto batch = left_.front();
        left_.pop_front();
        const auto state = claims_.take(batch);
        for (const auto done : claims_.news()) state_.others += begins_[done + 1] - begins_[done];
        if (state == State::taken) taken_.push_back(batch);
        if (state == State::inherited) store_.refresh();  // its last owner may have written some rows
        if (state == State::ours || state == State::inherited) return batch;
      }
      if (failed_ || taken_.empty()) return std::nullopt;
      if (again) return kHeld;
    }
  }

  void rest(std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex_);
    watch_(state_);
    changed_.wait_for(lock, pause, [&] { return failed_; });
  }

  void perform(std::size_t batch, Pending& pending) {
    for (auto at = begins_[batch]; at < begins_[batch + 1]; at++) {
      const auto index = order_[at];
      if (auto row = compute_(index, store_.digest(points_[index])))
        pending.rows.push_back(std::move(*row));
      else
        pending.kept++;
      if (pending.rows.size() >= options_.rows || Clock::now() - pending.since > kCommit) write(pending);
      const std::scoped_lock lock(mutex_);
      if (failed_) return;  // closing the claims releases the batch
      ++state_.under_way;
      watch_(state_);
    }
    pending.batches.push_back(batch);
  }

  void write(Pending& pending) {
    auto [rows, kept, batches, since] = std::exchange(pending, Pending{});
    if (!rows.empty()) store_.write(rows);
    for (const auto batch : batches) claims_.finish(batch);
    const std::scoped_lock lock(mutex_);
    state_.computed += rows.size(), state_.kept += kept;
    state_.under_way -= std::min(state_.under_way, rows.size() + kept);
  }

  store::Store& store_;
  store::Claims& claims_;
  std::span<const store::Point> points_;
  const SweepOptions& options_;
  const Compute& compute_;
  const Watch& watch_;
  std::vector<std::size_t> order_,
      begins_;  // each point once; where in this order each batch begins, and the last ends
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> left_, taken_;  // batches; taken: were claimed by other processes
  SweepState state_;
  bool failed_ = false;
};

}  // namespace

std::string sweep_key(const std::string& version, std::span<const store::Point> points) {
  Sha256 digest;
  digest.update(fmt::format("{} {} {}\n", version, kShare, kLargest));
  for (const auto& point : points) digest.update(point.file + '\n' + point.set + '\n');
  return digest.hex().substr(0, 12);
}

SweepState sweep(store::Store& store, store::Claims& claims, std::span<const store::Point> points,
                 const SweepOptions& options, const Compute& compute, const Watch& watch) {
  return Sweep(store, claims, points, options, compute, watch).run();
}

}  // namespace rehearsal::explore
