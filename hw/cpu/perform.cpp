#include <algorithm>

#include "base/error.hpp"
#include "cpu/functions.hpp"
#include "cpu/kernels.hpp"
#include "kernels/expert_products.hpp"
#include "kernels/rearrange.hpp"
#include "kernels/state_space_passes.hpp"
#include "kernels/steps.hpp"

namespace rehearsal::cpu {
namespace {

const float* rows_of(std::span<const float> rows, std::int64_t elements) {
  INVARIANT(static_cast<std::int64_t>(rows.size()) == elements, "the data has the shape of the kernel");
  return rows.data();
}

// The loss is a double in a buffer of floats. Only one rank of a tensor group adds it, because all compute the same.
void add_loss(float* loss, double sum, const KernelContext& around) {
  if (around.tensor == 0) *reinterpret_cast<double*>(loss) += sum;
}

// Copies whole runs of elements.
template <class Where>
void gather(const Where& where, std::int64_t elements, const float* from, float* to) {
  const std::int64_t run = std::max<std::int64_t>(1, where.run());
  for (std::int64_t i = 0; i < elements; i += run) std::copy_n(from + where.at(i), run, to + i);
}
template <class Where>
void scatter(const Where& where, std::int64_t elements, const float* from, float* to) {
  const std::int64_t run = std::max<std::int64_t>(1, where.run());
  for (std::int64_t i = 0; i < elements; i += run) std::copy_n(from + i, run, to + where.at(i));
}

Heads heads_of(const Kernel& kernel, const KernelContext& around) {
  const auto& dims = kernel.dims;
  Heads shape{dims[0], dims[1], dims[2], dims[3], sight_of(dims[4]), kv_heads(kernel)};
  if (shape.sight.documents == 0) return shape;
  const std::int64_t ranks = kernels::ranks_of_cut(dims[6]);
  INVARIANT(static_cast<std::int64_t>(around.batch.documents.size()) == dims[0] * dims[2] * ranks,
            "the document of every position of the sequences is known");
  shape.documents = around.batch.documents.data();
  return shape;
}

// Which row of the table of positions each row reads. dims: T n s c balanced t documents.
kernels::Numbered numbered(const Kernel& kernel, const KernelContext& around) {
  const auto& dims = kernel.dims;
  return {dims[2], kernels::cut_of(dims[3], dims[4], around.context),
          kernels::first_of_rows(dims[5], dims[0], around.tensor),
          dims[6] != 0 ? around.batch.documents.data() : nullptr};
}

// Attention to the block of one rank, or to those of all ranks with the own block first.
void each_block(const Kernel& kernel, std::span<float* const> x, const KernelContext& around) {
  const Heads shape = heads_of(kernel, around);
  kernels::each_step(kernel, around.context, [&](const kernels::RingStep& at) {
    const Part part{at.own, at.from, at.first};
    if (kernel.kind == KernelKind::attention_part)
      attention_part(shape, part, x[0], x[1] + at.block, x[2], x[3]);
    else
      attention_part_gradient(shape, part, x[0], x[1] + at.block, x[2], x[3], x[4], x[5], x[6] + at.block);
  });
}

// Those of Mamba-2.
void state_space(const Kernel& kernel, std::span<float* const> x, const KernelContext& around) {
  const auto [a, b, c, d, e, f, g, h] = kernel.dims;
  const Convolution convolution{a, c, d, kernels::tap_rows(kernel, around.context), piece_of(g)};
  const ScanShape shape = scan_shape(kernel);
  const auto scalars = [&](const float* of) {
    return HeadScalars{of, shape.heads * shape.context, shape.context > 1 ? around.context * shape.heads : 0};
  };
  switch (kernel.kind) {
    case KernelKind::convolve:
      return convolve(convolution, x[0], x[1], x[2], x[3]);
    case KernelKind::convolve_gradient:
      return convolve_gradient(convolution, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
    case KernelKind::last_rows:
      return gather(kernels::LastRows{c, b, d - 1}, a / c * (d - 1) * b, x[0], x[1]);
    case KernelKind::scan:
      return scan(shape, piece_of(h), x[0], x[1], scalars(x[2]), x[3], x[4]);
    case KernelKind::scan_gradient:
      return scan_gradient(shape, piece_of(h), x[0], scalars(x[1]), x[2], x[3], x[4], x[5], x[6], x[7]);
    case KernelKind::copy_state:
      std::copy_n(x[0] + b, a, x[1] + c);
      return;
    case KernelKind::gated_norm:
      return gated_norm({a, b, c}, x[0], x[1], x[2], x[3], x[4]);
    default:
      return gated_norm_gradient({a, b, c}, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
  }
}

// The targets of `rows` of the micro-batch's rows.
std::span<const std::int32_t> some(std::span<const std::int32_t> targets, std::int64_t first, std::int64_t rows) {
  INVARIANT(first + rows <= static_cast<std::int64_t>(targets.size()), "a chunk lies within the micro-batch");
  return targets.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
}

void optimize(const Kernel& kernel, std::span<float* const> operands, const KernelContext& around) {
  INVARIANT(around.learning, "optimizers need their rates");
  const std::int64_t e = kernel.dims[0];
  float* gradient = operands[0] + first_of_flat(kernel.dims[1], e, around.data);
  float* parameters = operands[1] + first_of_flat(kernel.dims[2], e, around.data);
  if (around.squared_gradients && kernel.kind != KernelKind::adamw_rollback)
    *around.squared_gradients += sum_of_squares(around.counted, gradient);
  const auto adam = [&](kernels::Step what) {
    adamw(e, *around.learning, around.step, what, gradient, parameters, operands[2]);
  };
  switch (kernel.kind) {
    case KernelKind::sgd: {
      const auto clip = static_cast<Clip>(kernel.dims[5]);
      if (clip == Clip::none) return sgd(e, *around.learning, gradient, parameters);
      double& norm = *reinterpret_cast<double*>(operands[2]);
      if (clip == Clip::add) {
        norm += summed(kernels::Squares{gradient, e});
        std::fill_n(gradient, e, 0.f);
        return;
      }
      backend::TrainingData scaled = *around.learning;
      scaled.learning_rate = kernels::clipped(scaled.learning_rate, norm);
      return sgd(e, scaled, gradient, parameters);
    }
    case KernelKind::momentum:
      return momentum(e, gradient, parameters);
    case KernelKind::muon:
      return muon(e, *around.learning, gradient, parameters);
    case KernelKind::adamw:
      return adam(kernels::Step::take_and_clear);
    case KernelKind::adamw_keep:
      return adam(kernels::Step::take);
    default:
      return adam(kernels::Step::undo);
  }
}

}  // namespace

void perform(const Kernel& kernel, std::span<float* const> operands, const KernelContext& around,
             GemmFunction product) {
  INVARIANT(operands.size() == operand_elements(kernel, around.data).count, "as many operands as the table says");
  const auto [a, b, c, d, e, f, g, h] = kernel.dims;
  const auto& x = operands;
  const Shape shape{a, b};
  const Batch& batch = around.batch;
  const Slice slice{around.tensor * b, kernel.dims[2]};
  switch (kernel.kind) {
    case KernelKind::load_rows:
      std::copy_n(rows_of(batch.rows, a * b), a * b, x[0]);
      return;
    case KernelKind::embed:
      return embed(shape, around.tensor * c, c, batch.tokens, x[0], x[1]);
    case KernelKind::add_positions:
      return add_positions(shape, numbered(kernel, around), x[0], x[1]);
    case KernelKind::layer_norm:
      return layer_norm(shape, x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::linear:
    case KernelKind::linear_input_gradient:
    case KernelKind::linear_weight_gradient: {
      kernels::Product filled = kernels::product_of(kernel);
      filled.a = x[0], filled.b = x[1], filled.c = x[2];
      return product(filled);
    }
    case KernelKind::add_bias:
      return add_bias(shape, static_cast<Bias>(c), x[0], x[1]);
    case KernelKind::gelu:
      return gelu(a, x[0], x[1]);
    case KernelKind::attention:
      return attention(heads_of(kernel, around), x[0], x[1], x[2]);
    case KernelKind::add_residual:
      return add_residual(shape, x[0], x[1], x[2]);
    case KernelKind::cross_entropy_local:
      return cross_entropy_local(shape, slice, some(batch.targets, e, a), x[0], x[1] + around.tensor * 3 * a);
    case KernelKind::cross_entropy:
      return add_loss(x[2], cross_entropy(a, d, x[0], x[1]) / double(e), around);
    case KernelKind::squared_error:
      return add_loss(x[1], squared_error(shape, x[0], rows_of(batch.row_targets, a * b)) / (2. * double(c * b)),
                      around);
    case KernelKind::cross_entropy_gradient:
      return cross_entropy_gradient(shape, slice, some(batch.targets, e, a), d, x[0], x[1]);
    case KernelKind::squared_error_gradient:
      return squared_error_gradient(shape, c, x[0], rows_of(batch.row_targets, a * b), x[1]);
    case KernelKind::bias_gradient:
      return bias_gradient(shape, static_cast<Bias>(c), x[0], x[1]);
    case KernelKind::layer_norm_gradient:
      return layer_norm_gradient(shape, x[0], x[1], x[2], x[3], x[4], x[5]);
    case KernelKind::gelu_gradient:
      return gelu_gradient(a, x[0], x[1]);
    case KernelKind::attention_gradient:
      return attention_gradient(heads_of(kernel, around), x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::add:
      return add(a, x[0], x[1]);
    case KernelKind::embed_gradient:
      return embed_gradient(shape, around.tensor * c, c, batch.tokens, x[0], x[1]);
    case KernelKind::positions_gradient:
      return positions_gradient(shape, numbered(kernel, around), x[0], x[1]);
    case KernelKind::clear:
      std::fill_n(x[0], a, 0.f);
      return;
    case KernelKind::copy:
      std::copy_n(x[0], a, x[1]);
      return;
    case KernelKind::own_rows:
      std::copy_n(x[0] + around.tensor * a * b, a * b, x[1]);
      return;
    case KernelKind::add_own_shard:
      return add(a, x[0] + around.data * a, x[1]);
    case KernelKind::sgd:
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
    case KernelKind::momentum:
    case KernelKind::muon:
      return optimize(kernel, operands, around);
    case KernelKind::over_frobenius:
      return over_frobenius(a, x[0]);
    case KernelKind::newton_schulz:
      return newton_schulz(kernel, x[0], x[1]);
    case KernelKind::adalomo:
      INVARIANT(around.learning, "optimizers need their rates");
      if (around.squared_gradients) *around.squared_gradients += sum_of_squares(around.counted, x[0]);
      return adalomo(shape, *around.learning, around.step, x[0], x[1], x[2]);
    case KernelKind::rms_norm:
      return rms_norm(shape, x[0], x[1], x[2], x[3]);
    case KernelKind::rms_norm_gradient:
      return rms_norm_gradient(shape, x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::rotary:
    case KernelKind::rotary_gradient:
      return rotary({a, b, c, d, e, kernels::cut_of(f, g, around.context)}, x[0],
                    kernel.kind == KernelKind::rotary_gradient);
    case KernelKind::swiglu:
      return swiglu(shape, x[0], x[1]);
    case KernelKind::swiglu_gradient:
      return swiglu_gradient(shape, x[0], x[1], x[2]);
    case KernelKind::route:
      return route(kernels::gating(kernel), x[0], x[1], x[2], x[3]);
    case KernelKind::route_gradient:
      return route_gradient(kernels::gating(kernel), x[0], x[1], x[2], x[3]);
    case KernelKind::dispatch_rows:
      return dispatch_rows({a, b, c, d * e}, x[0], x[1], x[2]);
    case KernelKind::dispatch_rows_gradient:
      return dispatch_rows_gradient({a, b, c, d * e}, x[0], x[1], x[2]);
    case KernelKind::combine_rows:
      return combine_rows({a, b, c, d * e}, x[0], x[1], x[2], x[3]);
    case KernelKind::combine_rows_gradient:
      return combine_rows_gradient({a, b, c, d * e}, x[0], x[1], x[2], x[3], x[4], x[5]);
    case KernelKind::attention_part:
    case KernelKind::attention_part_gradient:
      return each_block(kernel, operands, around);
    case KernelKind::take_columns:
      return gather(kernels::SomeColumns{b, c, d}, a * d, x[0], x[1]);
    case KernelKind::put_columns:
      return scatter(kernels::SomeColumns{b, c, d}, a * d, x[0], x[1]);
    case KernelKind::cut_columns:
      return gather(kernels::ColumnBlocks{a, b, c, d}, a * (c + 2 * d), x[0], x[1]);
    case KernelKind::join_columns:
      return scatter(kernels::ColumnBlocks{a, b, c, d}, a * (c + 2 * d), x[0], x[1]);
    case KernelKind::join_rows:
      return scatter(kernels::RowBlocks{a, b, c, kernels::cut_of(d, e, 0)}, a * b * c * d, x[0], x[1]);
    case KernelKind::cut_rows:
      return gather(kernels::RowBlocks{a, b, c, kernels::cut_of(d, e, 0)}, a * b * c * d, x[0], x[1]);
    case KernelKind::head_norm:
      return head_norm({a, b, c, d}, x[0], x[1], x[2], x[3]);
    case KernelKind::head_norm_gradient:
      return head_norm_gradient({a, b, c, d}, x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::attention_sinks:
      return attention_sinks({a, b, c, d}, x[0] + (e > 0 ? around.context * b : 0), x[1], x[2]);
    case KernelKind::attention_sinks_gradient: {
      const std::int64_t own = e > 0 ? around.context * b : 0;
      return attention_sinks_gradient({a, b, c, d}, x[0], x[1], x[2], x[3] + own, x[4] + own);
    }
    case KernelKind::gate:
      return gate(a, x[0], x[1], x[2]);
    case KernelKind::gate_gradient:
      return gate_gradient(a, x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::convolve:
    case KernelKind::convolve_gradient:
    case KernelKind::last_rows:
    case KernelKind::scan:
    case KernelKind::scan_gradient:
    case KernelKind::copy_state:
    case KernelKind::gated_norm:
    case KernelKind::gated_norm_gradient:
      return state_space(kernel, x, around);
    case KernelKind::expert_linear:
    case KernelKind::expert_linear_input_gradient:
    case KernelKind::expert_linear_weight_gradient:
      return kernels::each_expert_product(kernel, [&](const Kernel& one, const std::array<std::int64_t, 3>& from) {
        const std::array<float*, 3> parts{x[0] + from[0], x[1] + from[1], x[2] + from[2]};
        perform(one, parts, around, product);
      });
  }
}

}  // namespace rehearsal::cpu
