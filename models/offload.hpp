// Which states of training leave GPU memory, and how they come back: ZeRO-Offload (arXiv 2101.06840) and ZeRO-Infinity
// (2104.07857).
#pragma once
#include <cstdint>
#include <optional>

#include "base/tier.hpp"

namespace rehearsal::models {

struct Offload {
  Tier optimizer = Tier::device, gradients = Tier::device, parameters = Tier::device;
  // Checkpoints of recomputed layers; or, of layers that keep what they made, this share of it, and of this many first
  // layers of a stage (all).
  Tier activations = Tier::device;
  std::optional<double> activation_share = {};
  std::optional<std::int64_t> activation_layers = {};
  double optimizer_fraction = 1;  // of the optimizer's states, that leave and are updated there
  // The host updates while the GPU computes the next step with the parameters of the one before (2101.06840, 4.2).
  bool delayed_update = false;
  // Parts of the model by which each copy runs ahead of its successor: the copy to the GPU ahead of the gather over
  // GPUs, the read from a disk ahead of that copy.
  std::int64_t prefetch = 1;
  // Each linear operator of a layer is split into this many tiles, run one after the other, each with its own
  // parameters and gradients (2104.07857, section 5.1.3).
  std::int64_t tiles = 1;
  bool one_owner = false;  // one rank owns each part and broadcasts it, instead of a shard on every rank

  bool any() const { return states() || activations != Tier::device; }
  bool states() const { return optimizer != Tier::device || gradients != Tier::device || parameters != Tier::device; }
  bool reaches(Tier tier) const {
    return optimizer == tier || gradients == tier || parameters == tier || activations == tier;
  }
};

// Whether checkpoints of recomputed layers are sharded over the tensor group, and where the shards are kept.
enum class CutCheckpoints : std::uint8_t { none, device, host };

// Share of its peak that a processor reaches if it waits for data without overlap (2104.07857, eq. 6). `intensity`:
// FLOPs per byte moved (section 4.1); bandwidth in bytes/s, peak in FLOP/s.
inline double efficiency(double intensity, double bandwidth, double peak) {
  return intensity * bandwidth / (intensity * bandwidth + peak);
}
// FLOPs per byte of each state (eqs. 9, 10, 11): `tokens` of a GPU per step, `hidden` columns, `between` layers between
// two checkpoints of activations. With full recomputation, and 16-bit parameters and gradients.
inline double intensity_of_parameters(double tokens) { return tokens; }
inline double intensity_of_optimizer(double tokens) { return tokens / 4; }
inline double intensity_of_checkpoints(double hidden, double between) { return 24 * hidden * between; }

}  // namespace rehearsal::models
