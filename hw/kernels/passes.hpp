// The kernels that a Call consists of, each with its number of blocks: the same on a GPU and on the host. All kinds but
// matrix products, which a GPU leaves to a library and the host to a function (host.hpp).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "kernels/attention_gradient.hpp"
#include "kernels/call.hpp"
#include "kernels/columns.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/experts.hpp"
#include "kernels/heads.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rearrange.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rotary.hpp"
#include "kernels/state_space_passes.hpp"
#include "kernels/steps.hpp"
#include "kernels/sums.hpp"

namespace rehearsal::kernels {

// The largest head depth that attention supports.
inline constexpr std::int64_t kLargestDepth = 256;

constexpr std::int64_t ceil_of(std::int64_t n, std::int64_t parts) { return (n + parts - 1) / parts; }

// T is the storage type of activations and parameters.
template <class T, class Run>
class Passes {
 public:
  Passes(const Call& call, int multiprocessors, Run& run) : call_(call), multiprocessors_(multiprocessors), run_(run) {}

  void go() {
    const auto [a, b, c, d, e, f, g, h] = call_.kernel.dims;
    const std::int64_t elements = a * b;
    switch (call_.kernel.kind) {
      case KernelKind::load_rows:
        return all(LoadRows<T>{call_.rows, x<T>(0)}, elements, aligned(call_.rows, x<T>(0)));
      case KernelKind::embed:
        return all(Embed<T>{call_.tokens, x<T>(0), x<T>(1), b, call_.tensor * c, c}, elements, wide<T>(b, {0, 1}));
      case KernelKind::add_positions:
        return all(AddPositions<T>{x<T>(0), x<T>(1), c, b, cut_of(d, e, call_.context),
                                   first_of_rows(f, a, call_.tensor), g != 0 ? call_.documents : nullptr},
                   elements, wide<T>(b, {0, 1}));
      case KernelKind::layer_norm:
        return b <= kNarrow ? layer_norm<64>() : layer_norm<256>();
      case KernelKind::add_bias: {
        const auto [from, skip] = without_bias(b, c);
        return all(AddBias<T>{x<T>(0), x<T>(1), b, from, skip}, elements, wide<T>(b, {0, 1}));
      }
      case KernelKind::gelu:
        return all(Gelu<T>{x<T>(0), x<T>(1)}, a, wide<T>(0, {0, 1}));
      case KernelKind::attention:
        return attention();
      case KernelKind::add_residual:
        return all(AddResidual<T>{x<T>(0), x<T>(1), x<T>(2), b}, elements, wide<T>(b, {0, 1, 2}));
      case KernelKind::cross_entropy_local:
        return rows(CrossEntropyLocal<T>{x<T>(0), call_.targets + e, x<float>(1) + call_.tensor * kEntries * a, a, b,
                                         real_columns(call_.kernel, call_.tensor), call_.tensor * b, wide<T>(b, {0})},
                    a);
      case KernelKind::cross_entropy:
        return sum(CrossEntropyRows{x<float>(0), x<float>(1), a, d}, a, double(e),
                   call_.tensor == 0 ? x<float>(2) : nullptr);
      case KernelKind::squared_error:
        if (call_.tensor != 0) return;
        return sum(SquaredErrors<T>{x<T>(0), call_.row_targets, elements, aligned(x<T>(0), call_.row_targets)},
                   elements, 2. * double(c * b), x<float>(1));
      case KernelKind::cross_entropy_gradient:
        return all(
            CrossEntropyGradient<T>{x<float>(0), call_.targets + e, x<T>(1), b,
                                    real_columns(call_.kernel, call_.tensor), call_.tensor * b, float(1 / double(d))},
            elements, wide<T>(b, {1}));
      case KernelKind::squared_error_gradient:
        return all(SquaredErrorGradient<T>{x<T>(0), call_.row_targets, x<T>(1), float(1 / (double(c) * double(b)))},
                   elements, aligned(x<T>(0), x<T>(1), call_.row_targets));
      case KernelKind::bias_gradient: {
        const auto [from, skip] = without_bias(b, c);
        return columns(BiasColumns<T>{x<T>(0), x<float>(1), b, from, skip});
      }
      case KernelKind::layer_norm_gradient:
        columns(NormColumns<T>{x<T>(0), x<float>(1), x<T>(5), x<float>(3), x<float>(4), b});
        return b <= kNarrow ? layer_norm_gradient<64>() : layer_norm_gradient<256>();
      case KernelKind::gelu_gradient:
        return all(GeluGradient<T>{x<T>(0), x<T>(1)}, a, wide<T>(0, {0, 1}));
      case KernelKind::attention_gradient:
        return attention_gradient();
      case KernelKind::add:
        return all(Add<T>{x<T>(0), x<T>(1)}, a, wide<T>(0, {0, 1}));
      case KernelKind::embed_gradient:
        return rows(EmbedGradient<T>{call_.tokens, x<T>(0), x<float>(1), a, b, call_.tensor * c, c}, a);
      case KernelKind::positions_gradient:
        if (g != 0)
          return all(PositionsOfDocuments<T>{x<T>(0),
                                             x<float>(1),
                                             b,
                                             a,
                                             {c, cut_of(d, e, call_.context), first_of_rows(f, a, call_.tensor),
                                              call_.documents}},
                     b, wide<T>(b, {0, 1}));
        return all(PositionsGradient<T>{x<T>(0), x<float>(1), c, b, elements, cut_of(d, e, call_.context),
                                        first_of_rows(f, a, call_.tensor)},
                   std::min(c * b, elements), wide<T>(b, {0, 1}));
      case KernelKind::clear:
        return all(Clear{x<float>(0)}, a, wide<float>(0, {0}));
      case KernelKind::copy:
        return all(Copy<T>{x<T>(0), x<T>(1)}, a, wide<T>(0, {0, 1}));
      case KernelKind::own_rows:
        return all(Copy<T>{x<T>(0) + call_.tensor * elements, x<T>(1)}, elements,
                   aligned(x<T>(0) + call_.tensor * elements, x<T>(1)));
      case KernelKind::add_own_shard:
        return all(Add<float>{x<float>(0) + call_.data * a, x<float>(1)}, a,
                   aligned(x<float>(0) + call_.data * a, x<float>(1)));
      case KernelKind::sgd:
      case KernelKind::adamw:
      case KernelKind::adamw_keep:
      case KernelKind::adamw_rollback:
        return optimize();
      case KernelKind::adalomo:
        return adalomo();
      case KernelKind::momentum:
        return momentum();
      case KernelKind::over_frobenius:
        return pass(OverFrobenius{x<float>(0), a}, 1);
      case KernelKind::newton_schulz: {
        const auto [of_a, of_b] = newton_schulz_factors(call_.kernel);
        return all(TwoScaled{x<float>(0), x<float>(1), of_a, of_b}, a, wide<float>(0, {0, 1}));
      }
      case KernelKind::muon:
        return muon();
      case KernelKind::rms_norm:
        return b <= kNarrow ? rms_norm<64>() : rms_norm<256>();
      case KernelKind::rms_norm_gradient:
        columns(RmsColumns<T>{x<T>(0), x<float>(1), x<T>(4), x<float>(3), b});
        return b <= kNarrow ? rms_norm_gradient<64>() : rms_norm_gradient<256>();
      case KernelKind::rotary:
      case KernelKind::rotary_gradient:
        return rotary();
      case KernelKind::swiglu:
        return all(SwiGlu<T>{x<T>(0), x<T>(1), b}, elements, wide<T>(b, {0, 1}));
      case KernelKind::swiglu_gradient:
        return all(SwiGluGradient<T>{x<T>(0), x<T>(1), x<T>(2), b}, elements, wide<T>(b, {0, 1, 2}));
      case KernelKind::route: {
        const Gating gates = gating(call_.kernel);
        rows(RouteRows<T>{gates, x<T>(0), x<float>(1), x<std::int32_t>(2), x<float>(3)}, a);
        return pass(NumberSlots{x<std::int32_t>(2), a * c, d}, a * c > 0 ? b : 0);
      }
      case KernelKind::route_gradient:
        return all(RouteGradient<T>{gating(call_.kernel), x<float>(0), x<std::int32_t>(1), x<float>(2), x<T>(3)},
                   elements, false);
      case KernelKind::dispatch_rows:
        all(Zeros<T>{x<T>(2)}, d * e * b, wide<T>(0, {2}));
        return all(ScatterRows<T>{x<T>(0), x<std::int32_t>(1), nullptr, x<T>(2), c, b}, elements * c,
                   wide<T>(b, {0, 2}));
      case KernelKind::dispatch_rows_gradient:
        return all(GatherRows<T>{x<T>(0), x<std::int32_t>(1), nullptr, x<T>(2), c, b}, elements, wide<T>(b, {0, 2}));
      case KernelKind::combine_rows:
        return all(GatherRows<T>{x<T>(0), x<std::int32_t>(1), x<float>(2), x<T>(3), c, b}, elements,
                   wide<T>(b, {0, 3}));
      case KernelKind::combine_rows_gradient:
        all(Zeros<T>{x<T>(4)}, d * e * b, wide<T>(0, {4}));
        all(ScatterRows<T>{x<T>(0), x<std::int32_t>(2), x<float>(3), x<T>(4), c, b}, elements * c, wide<T>(b, {0, 4}));
        return rows(SlotProducts<T>{x<T>(0), x<T>(1), x<std::int32_t>(2), x<float>(5), a * c, c, b, wide<T>(b, {0, 1})},
                    a * c);
      case KernelKind::attention_part:
        return attention_part();
      case KernelKind::attention_part_gradient:
        return attention_part_gradient();
      case KernelKind::take_columns:
        return gather<T, T>(SomeColumns{b, c, d}, a * d);
      case KernelKind::put_columns:
        return scatter<float, T>(SomeColumns{b, c, d}, a * d);
      case KernelKind::cut_columns:
        return gather<T, T>(ColumnBlocks{a, b, c, d}, a * (c + 2 * d));
      case KernelKind::join_columns:
        return scatter<T, T>(ColumnBlocks{a, b, c, d}, a * (c + 2 * d));
      case KernelKind::join_rows:
        return scatter<T, T>(RowBlocks{a, b, c, cut_of(d, e, 0)}, a * b * c * d);
      case KernelKind::cut_rows:
        return gather<T, T>(RowBlocks{a, b, c, cut_of(d, e, 0)}, a * b * c * d);
      case KernelKind::head_norm:
        return rows(HeadNorm<T>{{a, b, c, d}, x<T>(0), x<T>(1), x<T>(2), x<float>(3), wide<T>(d, {0, 1, 2})},
                    a * (b + c));
      case KernelKind::head_norm_gradient:
        columns(HeadColumns<T>{{a, b, c, d}, x<T>(0), x<float>(1), x<T>(4), x<float>(3), 2 * d});
        return rows(HeadNormGradient<T>{{a, b, c, d}, x<T>(0), x<float>(1), x<T>(2), x<T>(4), wide<T>(d, {0, 2, 4})},
                    a * (b + c));
      case KernelKind::attention_sinks:
        return rows(AttentionSinks<T>{{a, b, c, d}, x<T>(0) + own_heads(), x<T>(1), x<float>(2), wide<T>(d, {1})},
                    a * b * c);
      case KernelKind::attention_sinks_gradient:
        return pass(
            AttentionSinksGradient<T>{
                {a, b, c, d}, x<T>(0), x<float>(1), x<T>(2), x<T>(3) + own_heads(), x<float>(4) + own_heads()},
            b);
      case KernelKind::gate:
        return all(Gate<T>{x<T>(0), x<T>(1), x<T>(2)}, a, wide<T>(0, {0, 1, 2}));
      case KernelKind::gate_gradient:
        return all(GateGradient<T>{x<T>(0), x<T>(1), x<T>(2), x<T>(3), x<T>(4)}, a, wide<T>(0, {0, 1, 2, 3, 4}));
      case KernelKind::convolve:
      case KernelKind::convolve_gradient:
      case KernelKind::last_rows:
      case KernelKind::scan:
      case KernelKind::scan_gradient:
      case KernelKind::copy_state:
      case KernelKind::gated_norm:
      case KernelKind::gated_norm_gradient:
        return StateSpacePasses<T, Passes>(call_, *this).go();
      case KernelKind::expert_linear:
      case KernelKind::expert_linear_input_gradient:
      case KernelKind::expert_linear_weight_gradient:
      case KernelKind::linear:
      case KernelKind::linear_input_gradient:
      case KernelKind::linear_weight_gradient:
        break;
    }
    INVARIANT(false, "matrix products are not made here");
  }

 private:
  friend class StateSpacePasses<T, Passes>;

  // Rows of up to this many columns are served by small blocks, of which many fit on an SM.
  static constexpr std::int64_t kNarrow = 1024;
  // Blocks per SM of kernels that stride over the grid: 8 of 256 threads fill its 2048.
  static constexpr std::int64_t kBlocksEach = 8;

  template <class X>
  X* x(std::size_t operand) const {
    return static_cast<X*>(call_.operands[operand]);
  }
  // Whether operands may be read 16 bytes at a time, in runs of up to `columns` elements (0: any length).
  template <class X>
  bool wide(std::int64_t columns, std::initializer_list<std::size_t> operands) const {
    return columns % kWide<X> == 0 &&
           std::all_of(operands.begin(), operands.end(), [&](std::size_t o) { return aligned(call_.operands[o]); });
  }

  std::int64_t at_most(std::int64_t blocks) const { return std::min(blocks, kBlocksEach * multiprocessors_); }
  template <class Kernel>
  void pass(const Kernel& kernel, std::int64_t blocks) {
    if (blocks > 0) run_(kernel, blocks);
  }
  template <class Body>
  void all(const Body& body, std::int64_t elements, bool wide) {
    using Kernel = Elementwise<Body>;
    const std::int64_t each = Kernel::kThreads * (wide ? Body::kAtOnce : 1);
    pass(Kernel{body, elements, wide}, at_most(ceil_of(elements, each)));
  }
  // One block per row, up to a limit; small blocks allow more.
  template <class Kernel>
  void rows(const Kernel& kernel, std::int64_t rows) {
    pass(kernel, std::min(rows, kBlocksEach * multiprocessors_ * std::max<std::int64_t>(1, 256 / Kernel::kThreads)));
  }

  // Strips as narrow as keeps the SMs of a large GPU busy, by shape alone (it determines the order of the sums); at
  // least 8 columns, which are one memory sector of fp32.
  template <class Body>
  void columns(const Body& body) {
    const std::int64_t height = call_.kernel.dims[0];
    if (body.columns >= 4096)
      pass(ColumnSums<Body, 32>{body, height}, ceil_of(body.columns, 32));
    else if (body.columns >= 2048)
      pass(ColumnSums<Body, 16>{body, height}, ceil_of(body.columns, 16));
    else
      pass(ColumnSums<Body, 8>{body, height}, ceil_of(body.columns, 8));
  }

  // The number of blocks depends only on the number of elements: it determines the order of summation.
  template <class Body>
  void sum(const Body& body, std::int64_t elements, double divisor, void* total) {
    constexpr std::int64_t kEach = 8;  // minimum number of elements per thread
    const std::int64_t blocks = std::min(kScratch, ceil_of(elements, GridSum<Body>::kThreads * kEach));
    pass(GridSum<Body>{body, call_.scratch}, blocks);
    if (total && blocks > 0) pass(AddParts{call_.scratch, blocks, divisor, total}, 1);
  }

  template <int kBlock>
  void layer_norm() {
    const std::int64_t height = call_.kernel.dims[0], width = call_.kernel.dims[1];
    rows(LayerNorm<T, kBlock>{x<T>(0), x<T>(1), x<T>(2), x<T>(3), x<float>(4), height, width,
                              wide<T>(width, {0, 1, 2, 3})},
         height);
  }
  template <int kBlock>
  void layer_norm_gradient() {
    const std::int64_t height = call_.kernel.dims[0], width = call_.kernel.dims[1];
    rows(LayerNormGradient<T, kBlock>{x<T>(0), x<float>(1), x<T>(2), x<T>(5), height, width, wide<T>(width, {0, 2, 5})},
         height);
  }

  template <int kBlock>
  void rms_norm() {
    const std::int64_t height = call_.kernel.dims[0], width = call_.kernel.dims[1];
    rows(RmsNorm<T, kBlock>{x<T>(0), x<T>(1), x<T>(2), x<float>(3), height, width, wide<T>(width, {0, 1, 2})}, height);
  }
  template <int kBlock>
  void rms_norm_gradient() {
    const std::int64_t height = call_.kernel.dims[0], width = call_.kernel.dims[1];
    rows(RmsNormGradient<T, kBlock>{x<T>(0), x<float>(1), x<T>(2), x<T>(4), height, width, wide<T>(width, {0, 2, 4})},
         height);
  }

  void rotary() {
    const auto [height, positions, heads, depth, width, c, balanced, d8] = call_.kernel.dims;
    INVARIANT(depth % 2 == 0, "columns of a head are turned in pairs");
    const std::int64_t half = depth / 2;
    all(Rotary<T>{x<T>(0), positions, heads, half, width, cut_of(c, balanced, call_.context),
                  call_.kernel.kind == KernelKind::rotary_gradient},
        height * heads * half, wide<T>(half, {0}) && width % kWide<T> == 0);
  }

  Heads heads() const {
    const auto [batch, heads, positions, depth, sees, kv, r7, r8] = call_.kernel.dims;
    Heads shape{batch, heads, positions, depth, sight_of(sees), kv_heads(call_.kernel)};
    if (shape.sight.documents > 0) shape.documents = call_.documents;
    return shape;
  }
  float root() const { return float(1 / std::sqrt(double(call_.kernel.dims[3]))); }
  float scale() const { return float(double(kLog2e) / std::sqrt(double(call_.kernel.dims[3]))); }

  // Calls with_depth(integral_constant) with the head depth rounded up to a supported one.
  template <class With>
  void by_depth(const With& with_depth) {
    const Heads shape = heads();
    INVARIANT(shape.depth <= kLargestDepth, "attention is made for heads of up to 256 columns");
    if (shape.batch * shape.heads * shape.positions * shape.depth == 0) return;
    if (shape.depth <= 32) return with_depth(std::integral_constant<int, 32>{});
    if (shape.depth <= 64) return with_depth(std::integral_constant<int, 64>{});
    if (shape.depth <= 128) return with_depth(std::integral_constant<int, 128>{});
    with_depth(std::integral_constant<int, 256>{});
  }
  void attention() {
    by_depth([&](auto depth) {
      using Kernel = Attention<T, depth()>;
      const Heads shape = heads();
      pass(Kernel{shape, x<T>(0), x<T>(0), x<T>(1), x<float>(2), scale(), wide<T>(shape.depth, {0, 1})},
           shape.batch * shape.heads * ceil_of(shape.positions, Kernel::kTile));
    });
  }
  void attention_gradient() {
    by_depth([&](auto depth) {
      using Operands = AttentionOperands<T, depth()>;
      const Heads shape = heads();
      const Operands operands{shape,
                              x<T>(0),
                              x<T>(0),
                              x<T>(1),
                              x<float>(2),
                              x<T>(3),
                              x<T>(4),
                              x<T>(4),
                              scale(),
                              root(),
                              wide<T>(shape.depth, {0, 1, 3, 4})};
      const std::int64_t tiles = shape.batch * ceil_of(shape.positions, Operands::kTile);
      pass(AttentionKeys<T, depth()>{operands}, tiles * shape.kv_heads);
      pass(AttentionQueries<T, depth()>{operands}, tiles * shape.heads);
    });
  }

  // The first of the sinks of this context rank.
  std::int64_t own_heads() const { return call_.kernel.dims[4] > 0 ? call_.context * call_.kernel.dims[1] : 0; }
  // The heads of the queries, with the keys of one block.
  static Heads with(Heads shape, const RingStep& step) {
    shape.apart = true, shape.own = step.own, shape.from = step.from;
    return shape;
  }
  void attention_part() {
    by_depth([&](auto depth) {
      using Kernel = Attention<T, depth(), true>;
      each_step(call_.kernel, call_.context, [&](const RingStep& step) {
        const Heads shape = with(heads(), step);
        const T* block = x<T>(1) + step.block;
        pass(Kernel{shape, x<T>(0), block, x<float>(2), x<float>(3), scale(),
                    wide<T>(shape.depth, {0}) && aligned(block), step.first},
             shape.batch * shape.heads * ceil_of(shape.positions, Kernel::kTile));
      });
    });
  }
  void attention_part_gradient() {
    by_depth([&](auto depth) {
      using Operands = AttentionOperands<T, depth(), true>;
      each_step(call_.kernel, call_.context, [&](const RingStep& step) {
        const Heads shape = with(heads(), step);
        const T* block = x<T>(1) + step.block;
        float* dblock = x<float>(6) + step.block;
        const Operands operands{shape,
                                x<T>(0),
                                block,
                                x<T>(2),
                                x<float>(3),
                                x<T>(4),
                                x<float>(5),
                                dblock,
                                scale(),
                                root(),
                                wide<T>(shape.depth, {0, 2, 4, 5}) && aligned(block, dblock)};
        const std::int64_t tiles = shape.batch * ceil_of(shape.positions, Operands::kTile);
        pass(AttentionKeys<T, depth(), true>{operands}, tiles * shape.kv_heads);
        pass(AttentionQueries<T, depth(), true>{operands}, tiles * shape.heads);
      });
    });
  }

  // `elements`: of the side that is accessed in order.
  template <class From, class To, class Where>
  void gather(const Where& where, std::int64_t elements) {
    all(GatherElements<Where, From, To>{where, x<From>(0), x<To>(1)}, elements, in_runs<From, To>(where.run()));
  }
  template <class From, class To, class Where>
  void scatter(const Where& where, std::int64_t elements) {
    all(ScatterElements<Where, From, To>{where, x<From>(0), x<To>(1)}, elements, in_runs<From, To>(where.run()));
  }
  template <class From, class To>
  bool in_runs(std::int64_t run) const {
    return run % kWide<To> == 0 && aligned(x<From>(0), x<To>(1));
  }

  // Index of the first of the e elements that an optimizer updates.
  std::int64_t first(std::int64_t flat) const {
    return static_cast<Flat>(flat) == Flat::part ? call_.data * call_.kernel.dims[0] : 0;
  }
  void optimize() {
    const auto& dims = call_.kernel.dims;
    const KernelKind kind = call_.kernel.kind;
    float* gradient = x<float>(0) + first(dims[1]);
    T* parameters = x<T>(1) + first(dims[2]);
    if (call_.squared_gradients && kind != KernelKind::adamw_rollback)
      sum(CountedSquares{gradient, call_.counted, call_.ranges}, dims[0], 1, call_.squared_gradients);
    if (kind == KernelKind::sgd) {
      const auto clip = static_cast<Clip>(dims[5]);
      if (clip != Clip::none) return clipped_sgd(clip, gradient, parameters);
      float* master = keeps_master(call_.kernel) ? x<float>(2) : nullptr;
      return all(Sgd<T>{call_.rates.learning_rate, gradient, parameters, master}, dims[0],
                 aligned(gradient, parameters, master));
    }
    if (kind == KernelKind::adamw) return adamw<Step::take_and_clear>(gradient, parameters);
    if (kind == KernelKind::adamw_keep) return adamw<Step::take>(gradient, parameters);
    adamw<Step::undo>(gradient, parameters);
  }
  void clipped_sgd(Clip clip, float* gradient, T* parameters) {
    const std::int64_t e = call_.kernel.dims[0];
    double* norm = x<double>(2);
    if (clip == Clip::scale)
      return all(Sgd<T>{call_.rates.learning_rate, gradient, parameters, nullptr, norm}, e,
                 aligned(gradient, parameters));
    sum(Squares{gradient, e}, e, 1, norm);
    all(Clear{gradient}, e, aligned(gradient));
  }
  void adalomo() {
    const std::int64_t rows = call_.kernel.dims[0], columns = call_.kernel.dims[1];
    float *gradient = x<float>(0), *moment = x<float>(2);
    if (call_.squared_gradients)
      sum(CountedSquares{gradient, call_.counted, call_.ranges}, rows * columns, 1, call_.squared_gradients);
    const bool vector = rows == 1;
    pass(AdaLomo<T>{call_.rates.learning_rate, call_.steps, gradient, x<T>(1), vector ? nullptr : moment,
                    vector ? moment : moment + rows, rows, columns},
         1);
  }
  void momentum() {
    const auto& dims = call_.kernel.dims;
    float *gradient = x<float>(0) + first(dims[1]), *moment = x<float>(1);
    if (call_.squared_gradients)
      sum(CountedSquares{gradient, call_.counted, call_.ranges}, dims[0], 1, call_.squared_gradients);
    all(Momentum{gradient, moment}, dims[0], aligned(gradient, moment));
  }
  void muon() {
    const auto& dims = call_.kernel.dims;
    float* update = x<float>(0) + first(dims[1]);
    T* parameters = x<T>(1) + first(dims[2]);
    float* master = keeps_master(call_.kernel) ? x<float>(2) : nullptr;
    const auto& rates = call_.rates;
    all(MuonStep<T>{rates.learning_rate, 1 - rates.learning_rate * rates.weight_decay, update, parameters, master},
        dims[0], aligned(update, parameters, master));
  }
  template <Step kStep>
  void adamw(float* gradient, T* parameters) {
    using Kernel = AdamW<T, kStep>;
    const std::int64_t e = call_.kernel.dims[0];
    float *m = x<float>(2), *v = m + e, *master = v + e;
    if constexpr (std::is_same_v<T, float>) master = parameters;
    const bool wide = aligned(gradient, parameters, m, v, master);
    pass(Kernel{call_.rates, call_.steps, gradient, parameters, m, v, master, e, wide},
         at_most(ceil_of(e, Kernel::kThreads * (wide ? Kernel::kAtOnce : 1))));
  }

  const Call& call_;
  const std::int64_t multiprocessors_;
  Run& run_;
};

}  // namespace rehearsal::kernels
