// Runs the kernels of a Call in the precision of its activations.
#pragma once
#include <type_traits>

#include "base/error.hpp"
#include "kernels/bf16.hpp"
#include "kernels/passes.hpp"

namespace rehearsal::kernels {

// run(kernel, blocks) is called for each pass in order; a pass sees the results of earlier ones.
template <class Run>
void passes(const Call& call, int multiprocessors, Run&& run) {
  switch (call.kernel.precision) {
    case Precision::fp32:
      return Passes<float, std::remove_reference_t<Run>>(call, multiprocessors, run).go();
    case Precision::bf16:
      return Passes<BFloat16, std::remove_reference_t<Run>>(call, multiprocessors, run).go();
    default:
      INVARIANT(false, "kernels are made for fp32 and bf16");
  }
}

}  // namespace rehearsal::kernels
