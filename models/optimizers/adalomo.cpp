// AdaLOMO (Lv et al., arXiv 2310.10195): LOMO with a second moment that is kept as the sums of rows and columns
// (Adafactor, 1804.04235); of a vector all of it.
#include "models/registry.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {
namespace {

// As its authors run it (OpenLMLab/LOMO, lomo_optim/adalomo.py, fuse_update). Of the gradient: a cast, divided by a
// constant scale, squared, plus epsilon, means of rows and of columns, the outer product of their roots written, times
// the gradient, its norm, divided by that (which clips it grouped). Of the parameters: a cast, their norm, the step, a
// copy back. Vectors of rows and columns are kernels, but no bytes worth counting: mean, scaled and added for each;
// mean, quotient and two roots for the product; four scalars of the two norms, four of the rate.
UpdateTraffic update(const Training& training) {
  const bool wide = bytes_per_element(training.precision) == 4;
  UpdateTraffic t;
  t.gradient = 3 * kInPlace + 2 * kReduced + 4 + kOfTwo + kReduced + kInPlace + (wide ? 0 : kCast);
  t.parameters = kReduced + kOfTwo + (wide ? 0 : 2 * kCast);
  t.gradient_copies = wide ? 8 : 12;  // the gradient, and its square or the update before and after an operation
  t.parameter_copies = 0;             // in the place of one of those
  t.kernels = wide ? 25 : 28;
  if (training.clipping == GradientClipping::norm) t.gradient += kInPlace, ++t.kernels;  // the whole of it is scaled
  return t;
}

UpdateTraffic take_norm(const Training& training) {
  auto t = norm_of_gradient(training);
  t.gradient += kInPlace, ++t.kernels;  // divided by its scale
  return t;
}

std::int64_t moments_of(const MatrixPlace& m) { return m.rows == 1 ? m.columns : m.rows + m.columns; }

double also_keeps(std::span<const Tensor> tensors) {
  std::int64_t elements = 0;
  for (const auto& m : matrices_of(tensors)) elements += moments_of(m);
  return 4 * double(elements);
}

// Matrix by matrix, in the order of the segment; their moments are stored one after the other.
std::vector<Kernel> kernels(const OwnShard& own) {
  const auto all = matrices_of(own.tensors);
  std::vector<Kernel> each;
  std::int64_t moments = 0;
  for (const auto& m : all) {
    const bool last = each.size() + 1 == all.size();
    each.push_back(
        {.kind = KernelKind::adalomo, .dims = {m.rows, m.columns, last}, .offsets = {m.offset, m.offset, moments}});
    moments += moments_of(m);
  }
  return each;
}

std::string refuses(const Setting& setting) {
  if (setting.training.clipping == GradientClipping::none)
    return "each update of adalomo is divided by its norm; leave gradient_clipping out, or set it to grouped";
  if (setting.native_kernels && setting.training.norms_first())
    return "this program's own kernels clip lomo by the norm, adalomo grouped; set gradient_clipping accordingly";
  if (setting.training.scales_loss())
    return "adalomo divides by a scale that never changes and looks for no infinities; leave loss_scaling out";
  return "";
}

std::string kernels_refuse(const Setting& setting) {
  if (setting.tensor > 1)
    return "adds up rows and columns of whole matrices for adalomo; set 'tensor' to 1, or 'optimizer' to lomo";
  if (setting.experts)
    return "has one matrix for all experts of a rank, and adalomo one moment for each matrix; set 'optimizer' to lomo";
  return "";
}

}  // namespace

void register_adalomo(Registry& registry) {
  registry.add({.name = "adalomo",
                .summary = "lomo with a factored second moment: sums of rows and columns",
                .master = false,
                .also_keeps = also_keeps,
                .in_backward = true,
                .clipping = GradientClipping::grouped,
                .hysteresis = 1,
                .learning_rate = 1e-3,
                .update = update,
                .take_norm = take_norm,
                .needs_norm_of_each = true,
                .kernels = kernels,
                .bf16_tolerance = .05,
                .turns_vectors = true,
                .refuses = refuses,
                .kernels_refuse = kernels_refuse});
}

}  // namespace rehearsal::models
