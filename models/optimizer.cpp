#include "models/optimizer.hpp"

#include "models/registry.hpp"

namespace rehearsal::models {

const Registry& optimizers() {
  static const Registry shelf = [] {
    Registry filled("optimizer");
    register_optimizers(filled);
    return filled;
  }();
  return shelf;
}

const Optimizer& optimizer(std::string_view name) { return optimizers().at(name); }
const Optimizer& default_optimizer() {
  static const Optimizer& usual = optimizer("adamw");
  return usual;
}

Kernel OwnShard::flat(KernelKind kind) const {
  Kernel kernel{.kind = kind, .dims = {elements}};
  kernel.dims[1] = static_cast<std::int64_t>(gradient), kernel.dims[2] = static_cast<std::int64_t>(parameters);
  kernel.dims[4] = dim_of(replicas);
  kernel.dims[5] = static_cast<std::int64_t>(clip);
  kernel.precision = precision;
  return kernel;
}

bool keeps_master(const Optimizer& optimizer, Precision precision) {
  return optimizer.master && precision != Precision::fp32;
}

bool steps_whole(const Optimizer& optimizer, std::span<const Tensor> segment) {
  return optimizer.steps_whole && !segment.empty() && optimizer.steps_whole(segment.front());
}

std::int64_t kept_elements(const Optimizer& optimizer, const OwnShard& own) {
  const std::int64_t masters = keeps_master(optimizer, own.precision) ? 1 : 0;
  if (optimizer.steps_whole) return ((steps_whole(optimizer, own.tensors) ? 1 : 2) + masters) * own.elements;
  const auto besides = optimizer.also_keeps ? bytes(optimizer.also_keeps(own.tensors)).count() / 4 : 0;
  return (optimizer.moments + masters) * own.elements + besides;
}

}  // namespace rehearsal::models
