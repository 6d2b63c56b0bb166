#include "launch/heartbeat.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>

#include "base/error.hpp"
#include "dispatch/clock.hpp"
#include "dispatch/watchdog.hpp"

namespace rehearsal::launch {
namespace {

// Two system calls every fiftieth of a second: negligible beside what is measured.
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr int kPatienceWithoutParent = 10;
constexpr int kMachine = 3;

}  // namespace

Heartbeat::Heartbeat(Launchers launchers) {
  const auto mine = membership(launchers);
  if (is_rank()) {
    rank_ = mine->rank;
    folder_.emplace(std::filesystem::path(std::getenv(kFolderVariable)));
    board_ = std::make_unique<Board>(folder_->board(), mine->size, false);
    auto& host = (*board_)[rank_].host;
    gethostname(host.data(), host.size() - 1);
    (*board_)[rank_].pid = static_cast<std::int32_t>(getpid());
    (*board_)[rank_].state = Slot::present;
  }
  // A shell that starts ranks by hand may exit before they end.
  const bool parent_stays = mine && mine->launcher != "by hand";
  thread_ = std::thread([this, parent_stays] { watch(parent_stays); });
}

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Heartbeat::begin(const dispatch::Progress& progress, Time timeout, std::atomic<bool>& stop) {
  std::lock_guard lock(mutex_);
  progress_ = &progress;
  timeout_ = timeout;
  stop_ = &stop;
  if (board_) show(), (*board_)[rank_].state = Slot::running;
}

void Heartbeat::end() {
  std::lock_guard lock(mutex_);
  if (board_ && progress_) show();
  progress_ = nullptr;
}

void Heartbeat::show() {
  Slot& slot = (*board_)[rank_];
  slot.moves = progress_->moves.load();
  slot.busy_until = progress_->busy_until.load();
  slot.computing = progress_->computing.load() ? 1 : 0;
  slot.iterations = progress_->iterations.load();
  slot.lanes = static_cast<std::uint32_t>(progress_->heads.size());
  for (std::size_t i = 0; i < progress_->heads.size(); ++i) slot.heads[i] = progress_->heads[i].load();
}

void Heartbeat::watch(bool parent_stays) {
  const pid_t parent = getppid();
  const dispatch::Progress* watched = nullptr;
  std::optional<dispatch::Watchdog> watchdog;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return leave_; })) {
    // The launcher died without ending its ranks: this rank's result is not wanted any more.
    if (parent_stays && getppid() != parent) _exit(kMachine);
    if (!progress_) {
      watched = nullptr;
      continue;
    }
    if (board_) {
      show();
      continue;
    }
    if (watched != progress_) watchdog.emplace(kPatienceWithoutParent * timeout_), watched = progress_;
    if (watchdog->expired({&watched, 1}, dispatch::now())) *stop_ = true;
  }
}

void Heartbeat::publish(std::string_view result) {
  if (!folder_) return;
  folder_->write(rank_, Leaf::result, result);
  (*board_)[rank_].state = Slot::finished;
}

void Heartbeat::report(std::exception_ptr error) noexcept {
  if (!folder_) return;
  try {
    try {
      std::rethrow_exception(error);
    } catch (const MachineError& e) {
      folder_->write(rank_, Leaf::error, fmt::format("3 {}", e.what()));
    } catch (const UserError& e) {
      folder_->write(rank_, Leaf::error, fmt::format("2 {}", e.what()));
    } catch (const std::bad_alloc&) {
      folder_->write(rank_, Leaf::error, "3 out of memory");
    } catch (const std::exception& e) {
      folder_->write(rank_, Leaf::error, fmt::format("70 {}", e.what()));
    }
  } catch (...) {  // the parent sees the exit status
  }
}

}  // namespace rehearsal::launch
