// The ranks that one process serves on one device, iteration by iteration: all ranks of a job as virtual stages, or one
// of many ranks. One host thread queues all work and does not wait for the device while it queues.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/results.hpp"
#include "gpu/gpu_rank.hpp"
#include "gpu/issue_order.hpp"

namespace rehearsal::gpu {

class DeviceExecutor {
 public:
  // Rank i of `served` gets partition i of a partitioned device. `depth`: slots.hpp. Keeps references to all arguments.
  DeviceExecutor(const graph::TaskGraph& graph, std::vector<RankId> served, const backend::RunOptions& options,
                 Device& device, Fabric& fabric, std::size_t depth);

  // Prepares the device for every kernel; must be called before peers can wait for it (Device::load).
  void load();
  // Records an iteration, which issue() then replays with one host call. Recording is slow, so no peer may wait for
  // this executor meanwhile. The ranks must have run an iteration before.
  void record(int step);
  // Queues an iteration.
  void issue(int step);
  // Waits until the device has completed the iteration; calls `check` about every ten milliseconds, which may throw to
  // give up. Throws MachineError when the device or a peer has failed.
  void finish(const std::function<void()>& check);
  // Issues and finishes an iteration while the device's own profiler observes it.
  DeviceReport observe(int step, const std::function<void()>& check);

  // Of the finished iteration, per served rank; times from `origin` on the host's clock.
  std::vector<timeline::Spans> spans(Time origin) const;
  // When the device began that iteration, on the host's clock, to within began_error().
  Time began() const { return began_; }
  Time began_error() const { return began_error_; }

  // Warns where work on one stream may wait for work on another though neither needs the other; empty otherwise.
  std::string crowding() const;

  dispatch::Progress& progress(std::size_t served) { return progress_[served]; }
  dispatch::Learned learned(std::size_t served) { return ranks_[served]->learned(); }

 private:
  void queue_all(int step);
  void queue_collective(std::span<const TaskOfRank> members);
  void look();
  GpuRank& rank(RankId id) { return *ranks_[index_[id.index()]]; }

  const graph::TaskGraph& graph_;
  const bool computes_;  // kernels, instead of waiting out the time of each task
  Device& device_;
  Fabric& fabric_;
  StreamId main_;
  EventId probe_, base_, done_;
  std::vector<std::unique_ptr<GpuRank>> ranks_;
  std::vector<std::size_t> index_;  // by RankId
  std::vector<EventId> rank_done_;
  Csr<TaskOfRank> order_;
  std::vector<dispatch::Progress> progress_;
  std::optional<RecordingId> recording_;
  Time probed_, began_, began_error_;
};

}  // namespace rehearsal::gpu
