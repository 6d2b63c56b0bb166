// What this program's own kernels keep of a layer that is recomputed, its input, where that is cut over the tensor
// group (ZeRO-R, arXiv 1910.02054, section 6.1) or leaves the device: between the forward of the layer and its
// backward.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lower/network_tiers.hpp"

namespace rehearsal::lower {

class NetworkCheckpoints {
 public:
  using Key = std::pair<std::size_t, std::uint32_t>;  // position, micro-batch or piece of one

  NetworkCheckpoints(ProgramDraft& draft, Sequencer& sequencer, NetworkTiers& tiers);
  void open();  // before the first task

  // Of a layer, counted in its stage.
  bool keeps(std::uint16_t layer) const;
  // The layer has gone forward, and its input is given up; before its backward somebody has it again.
  void keep(Key key, BufferId input, const graph::Coordinates& at);
  BufferId back(Key key, const graph::Coordinates& at);
  // Begins what takes time of that, for a backward that is soon to come.
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
  NetworkTiers& tiers_;
  const Tier tier_;
  const std::int64_t cut_;  // tensor ranks that share one
  BufferPool staged_;
  std::map<Key, Kept> kept_;
  PendingOffload leaving_;
};

}  // namespace rehearsal::lower
