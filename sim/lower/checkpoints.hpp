// Inputs of recomputed layers between forward and backward, if they are sharded over the tensor group as in ZeRO-R
// (arXiv 1910.02054, section 6.1; Pa and Pa+cpu) or offloaded.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "lower/step_emitter.hpp"
#include "lower/tiers.hpp"

namespace rehearsal::lower {

class Checkpoints {
 public:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::size_t>;  // stage, micro-batch or piece of one, use
  // The rank's own rows of an input, which dies, into `part`; and all rows of it again, of which `part` and `gone` die.
  struct Rows {
    std::function<LocalTask(BufferId whole, BufferId part, const graph::Coordinates& at)> own;
    std::function<LocalTask(BufferId part, BufferId whole, const graph::Coordinates& at, std::vector<LocalTask> after,
                            const std::vector<graph::BufferUse>& gone)>
        all;
  };
  // `compute`: as of Tiers.
  Checkpoints(ProgramDraft& draft, Rows rows, Sequencer* compute = nullptr);
  void open();  // before the first task

  bool cut() const { return cut_ > 1; }
  bool active() const { return cut() || tier_ != Tier::device; }
  // Whether the input of a layer is kept here. `layer`: within its stage; embedding and head are never recomputed.
  bool keeps(std::uint16_t layer) const;
  bool holds(Key key) const { return kept_.contains(key); }
  // keep() follows the forward of the layer, which ends with `since`, and gives up `input`; returns the last task on
  // the compute lane. back() returns the input on the device before the backward, after `after`. `when`: what its
  // copies wait for besides; `ready`, if from a disk.
  LocalTask keep(Key key, BufferId input, const graph::Coordinates& at, LocalTask since);
  struct Back {
    LocalTask there;
    BufferId input;
  };
  Back back(Key key, const graph::Coordinates& at, std::vector<LocalTask> after = {}, const Tiers::When& when = {});
  // Starts the slow steps of back() early, for a backward that comes soon.
  void begin(Key key, const graph::Coordinates& at, const Tiers::When& when = {});

  Tier tier() const { return tier_; }

 private:
  struct Kept {
    Bytes size;  // of the whole input
    LocalTask since;
    BufferId part;                       // the input, or this rank's rows of it; on the device
    std::optional<BufferId> away = {};   // the same on another tier
    std::optional<LocalTask> copy = {};  // from there
  };
  Bytes slice(Bytes whole) const { return Bytes(whole.count() / cut_); }
  Tiers::StagedThrough staged();

  ProgramDraft& draft_;
  const Rows rows_;
  Sequencer* const compute_;
  Tiers tiers_;
  const Tier tier_;
  const std::int64_t cut_;  // tensor ranks that share one
  BufferPool pool_;
  std::map<Key, Kept> kept_;
};

}  // namespace rehearsal::lower
