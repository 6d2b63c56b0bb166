// Checkpoints of native kernels: the input of a recomputed layer, sharded over the tensor group (ZeRO-R, arXiv
// 1910.02054, section 6.1) or offloaded between the forward of the layer and its backward.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lower/sequencer.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

class NetworkCheckpoints {
 public:
  using Key = std::pair<std::size_t, std::uint32_t>;  // position, micro-batch or piece of one

  NetworkCheckpoints(ProgramDraft& draft, Sequencer& sequencer, Tiers& tiers);
  void open();  // before the first task

  // Whether the input of a layer is kept here. `layer`: within its stage.
  bool keeps(std::uint16_t layer) const;
  // keep() follows the forward of the layer and gives up `input`; back() returns it on the device before the backward.
  void keep(Key key, BufferId input, const graph::Coordinates& at);
  BufferId back(Key key, const graph::Coordinates& at);
  // Starts the slow steps of back() early, for a backward that comes soon.
  void begin(Key key, const graph::Coordinates& at);

 private:
  struct Kept {
    TierBuffer home;
    std::optional<LocalTask> there, copy;
    BufferId part = {};  // on the device, when it comes back
  };
  Bytes whole() const { return draft_.pipe.plan->message; }
  Bytes part() const { return Bytes(whole().count() / cut_); }

  ProgramDraft& draft_;
  Sequencer& sequencer_;
  Tiers& tiers_;
  const Tier tier_;
  const std::int64_t cut_;  // tensor ranks that share one input
  BufferPool staged_;
  std::map<Key, Kept> kept_;
  PendingOffload leaving_;
};

}  // namespace rehearsal::lower
