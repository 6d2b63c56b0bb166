// Lifetimes of the values of a part: from the first step that names them to the last. A value of a forward step that
// the backward repeats lives twice: it dies in the forward and is born again, unless it stays. Peaks and levels of
// memory follow, for frameworks and for native kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "models/part.hpp"

namespace rehearsal::models {

enum class PassKind : std::uint8_t { forward, input_gradient, weight_gradient, backward, norm_backward };
inline constexpr std::size_t kPassKinds = 5;

const std::vector<Step>& steps(const Part& part, PassKind pass);

// The input and the output gradient are born outside of the part, the output and the input gradient die there; values
// that pieces of a sequence share are born and die in the pieces that say so (Carried).
struct StepLife {
  std::vector<std::uint16_t> born, dies;
};

struct Lives {
  std::vector<StepLife> passes[kPassKinds];
  const std::vector<StepLife>& of(PassKind pass) const { return passes[static_cast<std::size_t>(pass)]; }
  // For each value whether it outlives the pass that makes it, and whether it then waits for the weight gradient. For
  // values that a backward recomputes, the second life counts: they outlive nothing.
  std::vector<bool> kept, waits;
  // Bytes kept between forward and input gradient (the input included), between that and the weight gradient (the
  // output gradient included), and brought back by recomputation.
  Bytes activations, weight_hold, recomputed;
};
Lives lives(const Part& part);

// The `candidates` (forward steps) that must run again to restore the values that the backward names, in order: from
// the last one on, a step stays if it writes a needed value, and then needs what it reads. So a full recomputation
// stops before the last linear layer, whose output is not read.
std::vector<Step> needed_again(const Part& part, const std::vector<Step>& candidates);

// Puts these in front of all forms of the backward, as repeated steps.
void repeat(Part& part, std::vector<Step> again);

}  // namespace rehearsal::models
