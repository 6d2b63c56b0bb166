// The rank's side of supervision: its identity, and a thread that shows its progress to the parent, ends the process
// when the parent is gone, and gives up by itself when nothing watches from outside.
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
  // Tells the parent that this rank has started. `launchers`: those that may have started it if there is no parent.
  explicit Heartbeat(Launchers launchers = Launchers::mpi);
  ~Heartbeat();  // joins the thread
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Shows `progress` to the parent until end(). A rank without a parent cannot see whether others compute, so it gives
  // up only after ten times `timeout` without progress: then `stop` becomes true.
  void begin(const dispatch::Progress& progress, Time timeout, std::atomic<bool>& stop);
  void end();

  // Sends the result to the parent, if there is one. A result marks the end of this rank's work.
  void publish(std::string_view result);
  void report(std::exception_ptr error) noexcept;

 private:
  void watch(bool parent_stays);
  void show();

  std::size_t rank_ = 0;
  std::optional<RunFolder> folder_;  // of the parent
  std::unique_ptr<Board> board_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool leave_ = false;
  const dispatch::Progress* progress_ = nullptr;
  Time timeout_;
  std::atomic<bool>* stop_ = nullptr;
  std::thread thread_;
};

}  // namespace rehearsal::launch
