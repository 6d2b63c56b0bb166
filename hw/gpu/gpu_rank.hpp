// One rank on a GPU: queues its tasks on streams, in any order that issue_order() allows, and afterwards reads when
// each task ran.
//
// Every queue of the program (dispatch/issue.hpp) is a stream. A task waits, on the device, for the end events of its
// dependencies, and is bracketed by two timed events. Messages travel through separate memory: a staging_copy copies
// out of a buffer or into it, as the graph says, so a buffer may be freed while its message is in transit.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "dispatch/issue.hpp"
#include "dispatch/performable.hpp"
#include "dispatch/rank_loop.hpp"
#include "gpu/fabric.hpp"
#include "gpu/gpu_worker.hpp"
#include "gpu/slots.hpp"

namespace rehearsal::gpu {

class GpuRank {
 public:
  // `part`: partition of the device's SMs. `depth`: messages of a channel in transit (slots.hpp). Keeps references to
  // all arguments. Throws UserError when real compute is requested of a graph that has none (dispatch/performable.hpp).
  GpuRank(const graph::TaskGraph& graph, RankId rank, const backend::RunOptions& options, Device& device,
          std::size_t part, Fabric& fabric, std::size_t depth);
  ~GpuRank();
  GpuRank(const GpuRank&) = delete;
  GpuRank& operator=(const GpuRank&) = delete;

  RankId id() const { return id_; }
  StreamId home() const { return home_; }  // of the compute lane
  std::size_t streams() const { return streams_.size(); }

  void load() {
    if (worker_) worker_->load();
  }
  // Begins an iteration, all of which comes after `base`, an event that has been recorded.
  void begin(int step, EventId base);
  void issue(LocalTask task);
  // A collective in three parts, because the fabric joins all members served here at once. Nothing: it is skipped.
  std::optional<Fabric::Member> begin_collective(LocalTask task);
  Fabric::Operation operation(LocalTask task) const;
  void end_collective(LocalTask task);
  // Makes `home` wait for all other streams and for the copy of the losses to the host.
  void end();

  // Updates `progress` to how far the device is; called by the thread that issues.
  void look(dispatch::Progress& progress);
  // Only when the device has passed end().
  timeline::Spans spans(EventId base, Time base_at) const;
  dispatch::Learned learned() { return worker_ ? worker_->learned() : dispatch::Learned{}; }
  void collect();

 private:
  const graph::Work& work(LocalTask task) const { return graph_.work(program_.work[task.index()]); }
  graph::EndpointId endpoint(LocalTask task) const { return graph::EndpointId(program_.endpoint[task.index()]); }
  StreamId stream(LocalTask task) const { return streams_[queues_.of[task.index()]]; }
  Time duration(LocalTask task) const { return options_.durations[program_.work[task.index()].index()]; }
  bool skips(LocalTask task) const {
    return options_.fault_injection.skip && options_.fault_injection.skip(id_, task, step_);
  }
  Bytes message_size(LocalTask message) const;

  void prepare_dummies();
  void enter(LocalTask task);
  void leave(LocalTask task);
  void act(LocalTask task);
  void send(LocalTask task);
  void take_in(LocalTask task);

  const graph::TaskGraph& graph_;
  const RankId id_;
  const graph::Program& program_;
  const backend::RunOptions& options_;
  Device& device_;
  Fabric& fabric_;
  const bool real_;

  dispatch::Queues queues_;
  std::vector<StreamId> streams_;  // by queue
  StreamId home_;
  std::unique_ptr<GpuWorker> worker_;
  std::vector<dispatch::Act> acts_;       // by task
  std::vector<LocalTask> other_;          // dispatch::staging_copies()
  std::vector<EventId> started_, ended_;  // by task
  std::vector<dispatch::IssueList> lanes_;
  std::vector<std::size_t> heads_;  // by lane: the first task that the device has not completed

  std::map<graph::EndpointId, Slots> outboxes_;  // by send endpoint
  std::vector<Address> message_;                 // by task: of a message between its staging copy and its transfer
  PoolId dummies_;
  std::vector<Address> dummy_in_, dummy_out_;  // operands of timed compute, by queue
  int step_ = 0;
};

}  // namespace rehearsal::gpu
