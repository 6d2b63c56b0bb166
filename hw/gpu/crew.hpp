// The ranks that one process serves on one device, iteration by iteration: all of a job as virtual stages, or one rank
// of many. One host thread queues everything and never waits for the device meanwhile.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/results.hpp"
#include "gpu/gpu_rank.hpp"
#include "gpu/issue_order.hpp"

namespace rehearsal::gpu {

class Crew {
 public:
  // Rank i of `served` gets partition i of the device where there are several. `depth`: slots.hpp. Borrows everything.
  Crew(const graph::TaskGraph& graph, std::vector<RankId> served, const backend::RunOptions& options, Device& device,
       Fabric& fabric, std::size_t depth);

  // Makes the device ready for every kernel; to be called before peers may wait for it (Device::load).
  void load();
  // Records an iteration, which issue() replays from then on; that costs the host one call. Takes the host a while, and
  // nobody shall wait for this crew meanwhile. The ranks must have gone through an iteration before.
  void record(int step);
  // Queues an iteration.
  void issue(int step);
  // Waits until the device has done it; calls `check` about every ten milliseconds, which may throw to give up. Throws
  // MachineError when the device or a peer has failed.
  void finish(const std::function<void()>& check);
  // An iteration that is issued and finished under the device's own eyes.
  DeviceReport observe(int step, const std::function<void()>& check);

  // Of the iteration that was finished, times from `origin` on the host's clock; per served rank.
  std::vector<timeline::Spans> spans(Time origin) const;
  // When the device began with it, on the host's clock, known to within the error.
  Time began() const { return began_; }
  Time began_error() const { return began_error_; }

  // Where streams share connections of the device: how many share how many, and what that means; empty otherwise.
  std::string crowding() const;

  dispatch::Progress& progress(std::size_t served) { return progress_[served]; }
  dispatch::Learned learned(std::size_t served) { return ranks_[served]->learned(); }

 private:
  void queue_all(int step);
  void queue_collective(std::span<const TaskOfRank> members);
  void look();
  GpuRank& rank(RankId id) { return *ranks_[index_[id.index()]]; }

  const graph::TaskGraph& graph_;
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
