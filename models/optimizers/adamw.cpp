// AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2).
#include "models/registry.hpp"
#include "models/transformer.hpp"

namespace rehearsal::models {
namespace {

// Fused, in fp32: gradient 4, parameter and both moments read and written 8 each: 28. One operation after the other:
// decay of the parameter 8; first moment scaled 8, gradient added 12; second moment scaled 8, square added 12; root 8,
// bias correction 8, epsilon 8; quotient added to the parameter 16: 88.
double moves_more(const Training& training) { return training.kernels == Kernels::unfused ? 88 - 28 : 0; }

std::vector<Kernel> kernels(const OwnShard& own) { return {own.flat(KernelKind::adamw)}; }

}  // namespace

void register_adamw(Registry& registry) {
  registry.add(
      {.name = "adamw",
       .summary = "two moments, and weight decay beside them",
       .moments = 2,
       .may_in_backward = true,
       .learning_rate = 1e-3,
       .weight_decay = .01,
       .moves_more = moves_more,
       .kernels = kernels,
       .on_host = true,
       .takes_back = Optimizer::TakesBack{KernelKind::adamw, KernelKind::adamw_keep, KernelKind::adamw_rollback},
       .bf16_tolerance = .2,
       .published = true});
}

}  // namespace rehearsal::models
