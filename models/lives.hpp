// When the values of a part live: each from the first step that names it to the last. What a step of the forward makes
// that the backward repeats lives twice: it dies in the forward and is born again, unless the value stays. Peaks and
// levels of memory follow, for frameworks and for this program's own kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "models/part.hpp"

namespace rehearsal::models {

enum class PassKind : std::uint8_t { forward, input_gradient, weight_gradient, backward, norm_backward };
inline constexpr std::size_t kPassKinds = 5;

const std::vector<Step>& steps(const Part& part, PassKind pass);

// The input and the output gradient are born outside of the part, the output and the input gradient die there; what
// pieces of a sequence share begins and ends with those of them that say so (Carried).
struct StepLife {
  std::vector<std::uint16_t> born, dies;
};

struct Lives {
  std::vector<StepLife> passes[kPassKinds];
  const std::vector<StepLife>& of(PassKind pass) const { return passes[static_cast<std::size_t>(pass)]; }
  // Of each value whether it outlives the pass that makes it, and whether it then waits for the weight gradient. Values
  // that a backward makes again are named by their second life: they outlive nothing.
  std::vector<bool> kept, waits;
  // In bytes: between forward and input gradient, the input included; between that and the weight gradient, the output
  // gradient included; what a repeated forward brings back.
  Bytes activations, weight_hold, recomputed;
};
Lives lives(const Part& part);

// Those of `candidates`, steps of the forward, that must run again to bring back what the backward names, in order:
// from the last one on, a step stays if it writes something needed, and then needs what it reads. So a full
// recomputation stops before the last linear layer, whose output nobody reads.
std::vector<Step> needed_again(const Part& part, const std::vector<Step>& candidates);

// Puts these in front of all forms of the backward, as steps that repeat.
void repeat(Part& part, std::vector<Step> again);

}  // namespace rehearsal::models
