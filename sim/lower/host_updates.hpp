// The step of an optimizer whose states lie on the host or on disks, by the host, segment by segment (ZeRO-Offload,
// arXiv 2101.06840, section 4): gradients leave or are read, states are read and written, parameters come back. One
// segment is read while another is updated and a third is written.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "lower/shard_state.hpp"
#include "lower/network_tiers.hpp"

namespace rehearsal::lower {

class HostUpdates {
 public:
  HostUpdates(ProgramDraft& draft, Sequencer& sequencer, NetworkTiers& tiers);

  bool active() const { return offload_.optimizer != Tier::device; }
  // With gradients of the step before, beside the passes of this one (section 4.2).
  bool late() const { return offload_.delayed_update; }

  // States of a segment, and the memory through which all of them pass: before the first task.
  void hold(ShardState& held);
  void open(std::span<const ShardState> all);

  // All updates of the step; late ones before its passes, others behind them.
  void begin(std::span<ShardState> all);
  // Gradients of what the device holds are complete. Afterwards the device has its own shards of new parameters, and no
  // gradients any more.
  void finish(std::span<ShardState> all);

 private:
  struct Step {
    std::optional<LocalTask> left;  // the gradient, from the device
    LocalTask done;
    BufferId result;             // parameters as they are stored, on the host
    BufferPool::Slot* slot = nullptr;  // that the result is in
    std::optional<LocalTask> back;
  };
  Step step(ShardState& held, const std::vector<LocalTask>& complete);
  void bring_back(ShardState& held, Step& step, std::vector<LocalTask> after);
  graph::Coordinates at(const ShardState& held, graph::Pass pass) const;
  Precision stored() const;
  // Fetched parameters are updated where they are kept, unless they are kept in fewer bits.
  bool has_master() const;

  ProgramDraft& draft_;
  Sequencer& sequencer_;
  NetworkTiers& tiers_;
  const models::Offload& offload_;
  BufferPool gradients_, moments_, masters_, results_;
  // By ShardState::described. Late results wait for the end of the passes that compute with the older ones.
  std::map<std::size_t, BufferId> returned_;
  std::map<std::size_t, Step> late_;
};

}  // namespace rehearsal::lower
