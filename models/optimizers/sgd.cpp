// Stochastic gradient descent.
#include "models/registry.hpp"

namespace rehearsal::models {

void register_sgd(Registry& registry) {
  registry.add({.name = "sgd",
                .summary = "the learning rate times the gradient, no moments",
                .kernels = [](const OwnShard& own) { return std::vector{own.flat(KernelKind::sgd)}; }});
}

}  // namespace rehearsal::models
