// AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2).
#include "models/registry.hpp"
#include "models/transformer.hpp"

namespace rehearsal::models {
namespace {

std::vector<Kernel> kernels(const OwnShard& own) { return {own.flat(KernelKind::adamw)}; }

}  // namespace

void register_adamw(Registry& registry) {
  registry.add(
      {.name = "adamw",
       .summary = "two moments, decoupled weight decay",
       .moments = 2,
       .may_in_backward = true,
       .learning_rate = 1e-3,
       .weight_decay = .01,
       .kernels = kernels,
       .on_host = true,
       .takes_back = Optimizer::TakesBack{KernelKind::adamw, KernelKind::adamw_keep, KernelKind::adamw_rollback},
       .bf16_tolerance = .2,
       .published = true});
}

}  // namespace rehearsal::models
