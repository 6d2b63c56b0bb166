// The rank's side: who this process is, and a thread that keeps it honest: it shows the parent how far the rank is,
// ends the process when the parent is gone, and where nobody watches from outside gives up itself.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "dispatch/rank_loop.hpp"
#include "launch/rank_environment.hpp"
#include "launch/run_folder.hpp"

namespace rehearsal::launch {

class Heartbeat {
 public:
  // Shows the parent that this rank has started. `launchers`: those that may have started it instead.
  explicit Heartbeat(Launchers launchers = Launchers::mpi);
  ~Heartbeat();  // joins the thread
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // From now on `progress` is shown, until end(). Without a parent a rank cannot see whether others compute, so it
  // gives up only when nothing has moved for ten times `timeout`: then `stop` becomes true.
  void begin(const dispatch::Progress& progress, Time timeout, std::atomic<bool>& stop);
  void end();

  // To the parent; nothing without one. The result counts as the end of this rank's work.
  void publish(std::string_view result);
  void report(std::exception_ptr error) noexcept;

 private:
  void watch(bool parent_stays);
  void show();

  std::size_t rank_ = 0;
  std::optional<RunFolder> folder_;  // of the parent
  std::unique_ptr<Board> board_;
  std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  bool leave_ = false;
  const dispatch::Progress* progress_ = nullptr;
  Time timeout_;
  std::atomic<bool>* stop_ = nullptr;
  std::thread thread_;
};

}  // namespace rehearsal::launch
