// The axes along which the GPUs of a job are numbered, sets of them, and the place of a rank.
//
// Tensor, context, data and pipeline are factors: their product is the number of ranks. Experts fold the ranks of one
// pipeline rank a second time: tensor x context x data = expert_tensor x expert x expert_data (plan/mesh.hpp). The data
// axis is cut in two where only some replicas share their states: data = shard x copy, shards being neighbours. Those
// that share them may be cut once more, into neighbours and the rest: `secondary` ones gather again what a forward has
// used, and gradients reduced in two hops go among those that are `near` (on one node), then `across` nodes.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rehearsal {

enum class Axis : std::uint8_t {
  tensor,
  context,
  data,
  pipeline,
  expert_tensor,
  expert,
  expert_data,
  shard,
  copy,
  secondary,
  near,
  across
};
inline constexpr std::size_t kFactors = 4;  // the first axes
inline constexpr std::size_t kAxes = 12;
constexpr std::size_t index(Axis axis) { return static_cast<std::size_t>(axis); }
// A part of the data axis.
constexpr bool cuts_data(Axis axis) { return index(axis) >= index(Axis::shard); }
// Axes whose groups communicate within the passes of a stage.
inline constexpr std::array kInside{Axis::tensor, Axis::context, Axis::expert, Axis::expert_tensor};
const char* name(Axis axis);  // "expert-data"
// The axis along which the ranks are that hold the same experts, or everything else that is the same.
constexpr Axis replicas(bool of_experts) { return of_experts ? Axis::expert_data : Axis::data; }

class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(Axis axis) : bits_(static_cast<std::uint16_t>(1u << index(axis))) {}
  constexpr bool holds(Axis axis) const { return (bits_ >> index(axis) & 1u) != 0; }
  constexpr std::uint16_t bits() const { return bits_; }
  friend constexpr Axes operator|(Axes a, Axes b) {
    a.bits_ |= b.bits_;
    return a;
  }
  friend constexpr bool operator==(Axes, Axes) = default;

 private:
  std::uint16_t bits_ = 0;
};
constexpr Axes operator|(Axis a, Axis b) { return Axes(a) | Axes(b); }
std::string name(Axes axes);  // "data x pipeline"

// One coordinate along each axis: those along the factors identify the rank, the others follow from them.
struct RankPlace {
  std::array<std::uint32_t, kAxes> along{};
  // Its index among the ranks that hold the same parameters: the same experts, and everything else.
  std::uint32_t expert_replica = 0, replica = 0;
  std::uint32_t share = 0;  // its index among those of the latter that share their states
  // Its index among replicas along Axis::expert_data, or along Axis::data or Axis::shard with the context.
  std::uint32_t among(Axis replicas) const {
    return replicas == Axis::expert_data ? expert_replica : replicas == Axis::shard ? share : replica;
  }
  std::uint32_t operator[](Axis axis) const { return along[index(axis)]; }
  std::uint32_t& operator[](Axis axis) { return along[index(axis)]; }
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

}  // namespace rehearsal
