// LOMO (Lv et al., arXiv 2306.09782): SGD inside the backward, on weights that have no copy in fp32.
#include "models/registry.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {
namespace {

// As its authors run it (OpenLMLab/LOMO, src/lomo.py, fuse_update): casts of gradient and parameters, parameters less
// the rate times the gradient, and a copy back. In fp32 nothing is cast. Clipped by the norm, what this replica updates
// is scaled; grouped: norm, two quotients, clamped, scaled.
UpdateTraffic update(const Training& training) {
  UpdateTraffic t{.parameters = kOfTwo, .kernels = 1};
  if (bytes_per_element(training.precision) < 4)
    t = {
        .gradient = kCast, .parameters = 2 * kCast + kOfTwo, .gradient_copies = 4, .parameter_copies = 4, .kernels = 4};
  if (training.clipping == GradientClipping::norm) t.parameters += kInPlace, ++t.kernels;
  if (training.clipping == GradientClipping::grouped) t.gradient += kReduced + kInPlace, t.kernels += 5;
  return t;
}

std::vector<Kernel> kernels(const OwnShard& own) {
  auto kernel = own.flat(KernelKind::sgd);
  if (own.precision != Precision::fp32) kernel.dims[3] = static_cast<std::int64_t>(Master::none);
  return {kernel};
}

std::string refuses(const Setting& setting) {
  if (setting.native_kernels && setting.training.clipping == GradientClipping::grouped)
    return "this program's own kernels clip lomo by the norm, adalomo grouped; set gradient_clipping accordingly";
  return "";
}

}  // namespace

void register_lomo(Registry& registry) {
  registry.add({.name = "lomo",
                .summary = "SGD inside the backward pass, for one micro-batch",
                .master = false,
                .in_backward = true,
                .hysteresis = 1,  // its own scaler is DeepSpeed's without hysteresis
                .update = update,
                .take_norm = norm_of_gradient,
                .kernels = kernels,
                .serially = "sgd",
                .bf16_tolerance = .05,
                .refuses = refuses});
}

}  // namespace rehearsal::models
