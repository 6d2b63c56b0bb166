// A rank's state of the network: parameters, gradients and optimizer states of its segments, whole or sharded over the
// ranks that hold the same ones (ZeRO, arXiv 1910.02054, section 5), and what the end of a step does to them. Experts
// are replicated along Axis::expert_data, everything else over all data-parallel ranks.
#pragma once
#include <optional>
#include <vector>

#include "lower/host_updates.hpp"
#include "lower/sequencer.hpp"
#include "lower/server.hpp"
#include "lower/shard_state.hpp"
#include "lower/tiers.hpp"
#include "lower/whole_matrices.hpp"

namespace rehearsal::lower {

class NetworkState {
 public:
  NetworkState(ProgramDraft& draft, Sequencer& sequencer);
  // Creates the resident buffers. Positions count the parts through the whole model.
  void begin(const std::vector<std::uint32_t>& stages);
  void finish_norms();  // the passes from here on train; the loss is counted anew
  void finish_step();

  // The segments of a part at a position, as indices into held().
  const std::vector<std::size_t>& segments_at(std::size_t position) const { return at_.at(position); }
  const ShardState& held(std::size_t index) const { return held_[index]; }
  BufferId loss() const { return *loss_; }

  const plan::StatePolicy& policy() const { return policy_; }
  const models::Optimizer& optimizer() const { return *draft_.pipe.plan->job.training.optimizer; }
  bool in_backward() const { return policy_.update == plan::StatePolicy::Update::in_backward; }
  Precision precision() const;  // of parameters
  // Gradients live for one micro-batch only: reduced into shards (ZeRO-2, 3), consumed at once, or accumulated
  // off the device.
  bool transient_gradients() const { return policy_.reduce == plan::StatePolicy::Reduce::per_part || in_backward(); }

  Tiers& tiers() { return tiers_; }
  // Fetches the rank's parameters of a segment that are kept off the device; the next task of any kind waits for the
  // copy. The caller records the last task that uses the slot.
  BufferPool::Slot& fetch(std::size_t index, const graph::Coordinates& at);

  // Schedules without a flush (schedule::Updates): the buffer with the parameters that a pass of this micro-batch uses:
  // the newest version, or an old one that was kept for it.
  BufferId parameters(std::size_t index, std::uint32_t stage, std::uint32_t microbatch) const;
  void begin_forward(std::uint32_t stage, std::uint32_t microbatch);
  // The gradients of a stage for one micro-batch are complete: updates, if every backward does.
  void end_backward(const graph::Coordinates& at, const std::vector<std::size_t>& positions);

  // The gradient of a part for one micro-batch is complete: if it is transient, reduces or consumes it, and frees it.
  void consume(std::size_t index, BufferId gradient, graph::Coordinates at);

 private:
  void open_rooms();
  void hold(const models::Part& part, std::size_t position, std::uint32_t stage, std::uint32_t layer, bool head);
  void update(const ShardState& held, BufferId gradient, bool part_of_gradient, const graph::Coordinates& at,
              std::optional<BufferId> free = {}, Clip clip = Clip::none);
  void clear_double(BufferId buffer, graph::Pass pass);
  void sum_copies(const ShardState& held, BufferId shard, const graph::Coordinates& at);
  void reduce_and_update(const ShardState& held, const graph::Coordinates& at);
  void sum_over_tensor(const ShardState& held, BufferId gradient, const graph::Coordinates& at);
  // Of a segment: sends each server its part of the gradients; receives the results, parameters or sums of gradients.
  void push(std::int64_t elements, BufferId gradients);
  void pull(std::int64_t elements, Precision precision, BufferId into);
  void finish_served();
  void store(std::size_t index, BufferId gradient, const graph::Coordinates& at);
  bool wanted(std::uint32_t stage, std::uint32_t version, std::uint32_t after) const;
  schedule::Updates updates() const { return draft_.pipe.schedule.updates; }

  ProgramDraft& draft_;
  Sequencer& sequencer_;
  const plan::StatePolicy policy_;
  Tiers tiers_;
  HostUpdates updates_;
  WholeMatrices matrices_;
  BufferPool parameters_, parameters_staged_, sums_, gradients_staged_;
  std::optional<ServerMessages> served_;  // with parameter servers
  std::uint32_t iteration_ = 0;           // counted over those in the graph
  std::vector<ShardState> held_;
  std::map<std::size_t, std::vector<std::size_t>> at_;  // position -> held
  std::optional<BufferId> loss_, norm_;  // norm_: squared norm of all gradients, if steps are clipped by it
  // Updates after every backward: how many each stage has taken, the version that each micro-batch in flight computes
  // with, and the old versions that are kept (a copy, made when an update would overwrite a version still in use).
  std::map<std::uint32_t, std::uint32_t> taken_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> version_;  // (stage, micro-batch)
  std::map<std::pair<std::size_t, std::uint32_t>, BufferId> kept_;            // (held, version)
};

// Position of the first part of a stage; parts are counted through the model.
std::size_t first_position(const Parts& parts, std::uint32_t stage);

}  // namespace rehearsal::lower
