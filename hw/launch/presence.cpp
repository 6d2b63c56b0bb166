#include "launch/presence.hpp"

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

// A fiftieth of a second of two system calls: invisible beside what is measured.
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr int kPatienceWithoutParent = 10;
constexpr int kMachine = 3;

std::optional<std::size_t> number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

bool is_rank() { return std::getenv(kFolderVariable) != nullptr; }

std::optional<std::size_t> launched_rank() {
  // OpenMPI; MPICH and other launchers that speak PMI.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const auto rank = number(variable)) return rank;
  // A batch script has a SLURM_PROCID too, but belongs to no step.
  if (std::getenv("SLURM_STEP_ID") != nullptr) return number("SLURM_PROCID");
  return std::nullopt;
}

bool in_job() { return !is_rank() && launched_rank().has_value(); }

Presence::Presence() {
  if (is_rank()) {
    const auto rank = launched_rank(), ranks = number(kRanksVariable);
    if (!rank || !ranks || *rank >= *ranks)
      throw MachineError("mpirun does not tell its processes which rank they are; OpenMPI and MPICH do");
    rank_ = *rank;
    folder_.emplace(std::filesystem::path(std::getenv(kFolderVariable)));
    board_ = std::make_unique<Board>(folder_->board(), *ranks, false);
    (*board_)[rank_].pid = static_cast<std::int32_t>(getpid());
    (*board_)[rank_].state = Slot::present;
  }
  thread_ = std::thread([this] { watch(); });
}

Presence::~Presence() {
  {
    std::lock_guard lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Presence::begin(const dispatch::Progress& progress, Time timeout, std::atomic<bool>& stop) {
  std::lock_guard lock(mutex_);
  progress_ = &progress;
  timeout_ = timeout;
  stop_ = &stop;
  if (board_) show(), (*board_)[rank_].state = Slot::running;
}

void Presence::end() {
  std::lock_guard lock(mutex_);
  if (board_ && progress_) show();
  progress_ = nullptr;
}

void Presence::show() {
  Slot& slot = (*board_)[rank_];
  slot.moves = progress_->moves.load();
  slot.busy_until = progress_->busy_until.load();
  slot.computing = progress_->computing.load() ? 1 : 0;
  slot.lanes = static_cast<std::uint32_t>(progress_->heads.size());
  for (std::size_t i = 0; i < progress_->heads.size(); ++i) slot.heads[i] = progress_->heads[i].load();
}

void Presence::watch() {
  const pid_t parent = getppid();
  const dispatch::Progress* watched = nullptr;
  std::optional<dispatch::Watchdog> watchdog;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return leave_; })) {
    // The launcher died without taking its ranks along: nobody will ask for this one's work.
    if (getppid() != parent) _exit(kMachine);
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

void Presence::publish(std::string_view result) {
  if (!folder_) return;
  folder_->write(rank_, Leaf::result, result);
  (*board_)[rank_].state = Slot::finished;
}

void Presence::report(std::exception_ptr error) noexcept {
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
