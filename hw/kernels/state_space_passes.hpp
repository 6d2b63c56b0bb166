// The kernels of Mamba-2's Calls, each with its number of blocks: a part of passes.hpp.
#pragma once
#include "base/error.hpp"
#include "kernels/columns.hpp"
#include "kernels/convolution.hpp"
#include "kernels/rearrange.hpp"
#include "kernels/state_space.hpp"

namespace rehearsal::kernels {

// Of convolve and its gradient.
inline TapRows tap_rows(const Kernel& kernel, std::int64_t context) {
  const std::int64_t ranks = ranks_of_cut(kernel.dims[5]);
  return {kernel.dims[1], kernel.dims[4], ranks, ranks > 1 ? context : 0};
}

// `passes`: who is asked to run them.
template <class T, class Passes>
class StateSpacePasses {
 public:
  StateSpacePasses(const Call& call, Passes& passes) : call_(call), passes_(passes) {}

  void go() {
    const auto [a, b, c, d, e, f, g, h] = call_.kernel.dims;
    switch (call_.kernel.kind) {
      case KernelKind::convolve:
        return passes_.all(Convolve<T>{convolution(), x(3)}, a * b, false);
      case KernelKind::convolve_gradient: {
        const Piece piece = piece_of(g);
        columns(TapColumns<T>{convolution(), x(3), x<float>(5), b * (d + 1)}, a);
        passes_.all(ConvolveGradient<T>{convolution(), x(3), x(4), x(6), piece.goes_on}, a * b, false);
        if (piece.follows)
          passes_.all(ConvolveGradientBefore<T>{convolution(), x(3), x(7)}, a / c * (d - 1) * b, false);
        return;
      }
      case KernelKind::last_rows:
        return passes_.template gather<T, T>(LastRows{c, b, d - 1}, a / c * (d - 1) * b);
      case KernelKind::copy_state:
        return passes_.all(Copy<float>{x<float>(0) + b, x<float>(1) + c}, a, aligned(x<float>(0) + b, x<float>(1) + c));
      case KernelKind::scan:
        return scan();
      case KernelKind::scan_gradient:
        return scan_gradient();
      case KernelKind::gated_norm:
        return passes_.rows(GatedNorm<T>{{a, b, c, x(0), x(1)}, x(2), x(3), x<float>(4)}, a * c);
      case KernelKind::gated_norm_gradient: {
        const GatedRows<T> of{a, b, c, x(0), x(1)};
        columns(GatedColumns<T>{of, x<float>(2), x(4), x<float>(5), b}, a);
        return passes_.rows(GatedNormGradient<T>{of, x<float>(2), x(3), x(4), x(6), x(7)}, a * c);
      }
      default:
        INVARIANT(false, "a kernel of Mamba-2");
    }
  }

 private:
  template <class X = T>
  X* x(std::size_t operand) const {
    return passes_.template x<X>(operand);
  }
  template <class Body>
  void columns(const Body& body, std::int64_t height) {
    passes_.pass(ColumnSums<Body, 8>{body, height}, (body.columns + 7) / 8);
  }
  Convolution<T> convolution() const {
    const auto& dims = call_.kernel.dims;
    return {dims[2], dims[3], tap_rows(call_.kernel, call_.context), x(0), x(1), x(2), piece_of(dims[6]).follows};
  }
  HeadScalars<T> scalars(const ScanShape& shape, std::size_t operand) const {
    return {x(operand), shape.heads * shape.context, first(shape)};
  }
  std::int64_t first(const ScanShape& shape) const { return shape.context > 1 ? call_.context * shape.heads : 0; }
  ScanShape shape() const {
    const ScanShape shape = rehearsal::scan_shape(call_.kernel);
    INVARIANT(shape.states <= kLargestState, "scans are made for states of up to 256 columns");
    return shape;
  }
  void scan() {
    const ScanShape of = shape();
    float* kept = x<float>(4);
    const ScanRows<T> rows{of, x(0), kept};
    passes_.all(ScanSteps<T>{of, x(1), scalars(of, 2), kept}, of.batch * of.chunks() * of.heads, false);
    passes_.all(ScanStates<T>{rows, kept, piece_of(call_.kernel.dims[7]).follows}, of.state(), false);
    passes_.rows(ScanResults<T>{rows, scalars(of, 2), x(3)}, of.tokens() * of.heads);
  }
  void scan_gradient() {
    const ScanShape of = shape();
    const ScanRows<T> rows{of, x(0), x<float>(2)};
    const T* dy = x(3);
    float* scratch = x<float>(7);
    const TokenTerms terms{scratch + of.behind_states(), of.heads};
    passes_.all(ScanStatesGradient<T>{rows, dy, scratch, piece_of(call_.kernel.dims[7]).goes_on}, of.state(), false);
    passes_.rows(ScanValuesGradient<T>{rows, scalars(of, 1), dy, scratch, x(5), terms}, of.tokens() * of.heads);
    passes_.rows(ScanKeysGradient<T>{rows, dy, scratch, x(5), terms}, of.tokens() * of.groups);
    passes_.rows(ScanStepsGradient<T>{rows, scalars(of, 1), scratch, x(6), terms}, of.batch * of.chunks() * of.heads);
    columns(ScalarColumns{terms.all, x<float>(4), of.heads, of.heads * of.context, first(of), 3 * of.heads},
            of.tokens());
  }

  const Call& call_;
  Passes& passes_;
};

}  // namespace rehearsal::kernels
