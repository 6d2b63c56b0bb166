// Optimizer step on the host, for states on the host or on disks, segment by segment (ZeRO-Offload, arXiv 2101.06840,
// section 4): gradients leave the device or are read, states are read and written, parameters come back. One segment is
// read while another is updated and a third is written.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "lower/sequencer.hpp"
#include "lower/shard_state.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

class HostUpdates {
 public:
  HostUpdates(ProgramDraft& draft, Sequencer& sequencer, Tiers& tiers);

  bool active() const { return offload_.optimizer != Tier::device; }
  // Delayed update: uses the gradients of the previous step, while the passes of this one run (section 4.2).
  bool late() const { return offload_.delayed_update; }

  // Before the first task: allocate the states of a segment, and the buffers that all segments are staged through.
  void hold(ShardState& held);
  void open(std::span<const ShardState> all);

  // Before the passes of the step: its delayed updates. Other updates follow the passes, in finish().
  void begin(std::span<ShardState> all);
  // Called when the gradients on the device are complete. Afterwards the device has its own shards of the new
  // parameters, and no gradients.
  void finish(std::span<ShardState> all);

 private:
  struct Step {
    std::optional<LocalTask> left;  // the gradient's copy from the device
    LocalTask done;
    BufferId result;                   // parameters in storage precision, on the host
    BufferPool::Slot* slot = nullptr;  // that holds the result
    std::optional<LocalTask> back;
  };
  Step step(ShardState& held, const std::vector<LocalTask>& complete);
  void bring_back(ShardState& held, Step& step, std::vector<LocalTask> after);
  graph::Coordinates at(const ShardState& held, graph::Pass pass) const;
  Precision stored() const;
  // False if parameters are offloaded in fp32: then they are updated in place.
  bool has_master() const;

  ProgramDraft& draft_;
  Sequencer& sequencer_;
  Tiers& tiers_;
  const models::Offload& offload_;
  const plan::StatePolicy policy_;
  BufferPool gradients_, moments_, masters_, results_;
  // By ShardState::described. Results of delayed updates wait until the passes that use the older parameters have
  // ended.
  std::map<std::size_t, BufferId> returned_;
  std::map<std::size_t, Step> late_;
};

}  // namespace rehearsal::lower
