// The kernels that perform() dispatches to. Pointers are to fp32, row major, without padding; names are those of the
// table of KernelKind (base/kernels.hpp), where `rows` is T and `columns` n.
#pragma once
#include <cstdint>
#include <span>

#include "cpu/kernels.hpp"
#include "cpu/vectors.hpp"
#include "kernels/convolution.hpp"
#include "kernels/cut.hpp"
#include "kernels/heads.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/routing.hpp"
#include "kernels/state_space.hpp"

namespace rehearsal::cpu {

struct Shape {
  std::int64_t rows = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
};

// The sum of the summands of kernels/sums.hpp, one after the other.
template <class Summands>
double summed(const Summands& body) {
  double sum = 0;
  body.each(0, 1, [&](double x) { sum += x; });
  return sum;
}

// --- elementwise.cpp
// The bias of `query_value` has 2/3 as many entries as there are columns: for the first and the last third.
void add_bias(Shape shape, Bias which, const float* bias, float* y);
void bias_gradient(Shape shape, Bias which, const float* dy, float* dbias);  // sums over rows in double
void gelu(std::int64_t elements, const float* u, float* g);
void gelu_gradient(std::int64_t elements, const float* u, float* dg);
void add_residual(Shape shape, const float* x, const float* bias, float* r);
void add(std::int64_t elements, const float* a, float* b);
// u[rows, 2 columns]: gates, then the gated values; g[rows, columns].
void swiglu(Shape shape, const float* u, float* g);
void swiglu_gradient(Shape shape, const float* u, const float* dg, float* du);

// --- norm.cpp
void layer_norm(Shape shape, const float* x, const float* gain, const float* bias, float* y, float* stats);
void layer_norm_gradient(Shape shape, const float* x, const float* stats, const float* gain, float* dgain, float* dbias,
                         float* dy);
void rms_norm(Shape shape, const float* x, const float* gain, float* y, float* stats);
void rms_norm_gradient(Shape shape, const float* x, const float* stats, const float* gain, float* dgain, float* dy);

// --- rotary.cpp
inline constexpr double kRotaryBase = 10000;
// Each sequence has `positions` rows; the first heads x depth columns of a row are rotated.
struct Turn {
  std::int64_t rows = 0, positions = 0, heads = 0, depth = 0, columns = 0;
  kernels::Cut cut{};
};
void rotary(Turn turn, float* rows, bool back);

// --- attention.cpp
struct Heads {
  std::int64_t batch = 0, heads = 0, positions = 0, depth = 0;
  Sight sight{Mask::causal};
  std::int64_t kv_heads = 0;                // divides `heads`; each is shared by equally many neighbouring query heads
  const std::int32_t* documents = nullptr;  // where they begin (Batch::documents), if the sight ends with them
};
// The context ranks that have the queries and the keys. `first`: there is no earlier result to merge with.
struct Part {
  kernels::Cut own{}, from{};
  bool first = true;
};
// All instruction sets give the same bytes; `set` must be available on this machine.
void attention(Heads shape, const float* qkv, float* out, float* lse, InstructionSet set = widest());
void attention_gradient(Heads shape, const float* qkv, const float* out, const float* lse, const float* dout,
                        float* dqkv, InstructionSet set = widest());
// `block`: keys and values of one rank. Adds to both gradients.
void attention_part(Heads shape, Part part, const float* qkv, const float* block, float* sums, float* lse,
                    InstructionSet set = widest());
void attention_part_gradient(Heads shape, Part part, const float* qkv, const float* block, const float* out,
                             const float* lse, const float* dout, float* dq, float* dblock,
                             InstructionSet set = widest());

// --- heads.cpp
using kernels::HeadRows;
using kernels::SinkRows;
void head_norm(const HeadRows& shape, const float* x, const float* gain, float* y, float* stats);
void head_norm_gradient(const HeadRows& shape, const float* x, const float* stats, const float* gain, float* dgain,
                        float* dy);
// `sinks`: of the heads of `shape`.
void attention_sinks(const SinkRows& shape, const float* sinks, float* out, float* lse);
void attention_sinks_gradient(const SinkRows& shape, const float* out, const float* lse, const float* dout,
                              const float* sinks, float* dsinks);
void gate(std::int64_t elements, const float* x, const float* u, float* y);
void gate_gradient(std::int64_t elements, const float* x, const float* u, const float* dy, float* dx, float* du);

// --- convolution.cpp
struct Convolution {
  std::int64_t rows = 0, positions = 0, taps = 0;
  kernels::TapRows tap_rows{};
  Piece piece{};
  std::int64_t columns() const { return tap_rows.columns; }
};
void convolve(const Convolution& shape, const float* x, const float* taps, const float* before, float* y);
void convolve_gradient(const Convolution& shape, const float* x, const float* taps, const float* before,
                       const float* dy, const float* after, float* dtaps, float* dx, float* dbefore);
struct NormedRuns {
  std::int64_t rows = 0, columns = 0, runs = 1;
};
void gated_norm(const NormedRuns& shape, const float* x, const float* z, const float* gain, float* y, float* stats);
void gated_norm_gradient(const NormedRuns& shape, const float* x, const float* z, const float* stats, const float* gain,
                         const float* dy, float* dgain, float* dx, float* dz);

// --- state_space.cpp
using HeadScalars = kernels::HeadScalars<float>;
void scan(const ScanShape& shape, Piece piece, const float* x, const float* steps, const HeadScalars& scalars, float* y,
          float* kept);
void scan_gradient(const ScanShape& shape, Piece piece, const float* x, const HeadScalars& scalars, const float* kept,
                   const float* dy, float* dscalars, float* dx, float* dsteps, float* scratch);

// --- experts.cpp. Slots are integers stored in place of floats (routing.hpp).
using kernels::Gating;
void route(const Gating& gating, const float* logits, float* weights, float* slots, float* probabilities);
void route_gradient(const Gating& gating, const float* probabilities, const float* slots, const float* dweights,
                    float* dlogits);
struct Dispatch {
  std::int64_t rows = 0, columns = 0, choices = 0, slots = 0;  // slots: over all experts
};
void dispatch_rows(const Dispatch& shape, const float* x, const float* slots, float* sent);
void dispatch_rows_gradient(const Dispatch& shape, const float* dsent, const float* slots, float* dx);
void combine_rows(const Dispatch& shape, const float* back, const float* slots, const float* weights, float* y);
void combine_rows_gradient(const Dispatch& shape, const float* dy, const float* back, const float* slots,
                           const float* weights, float* dback, float* dweights);

// --- embedding.cpp
// The table has rows first .. first + slice of the vocabulary.
void embed(Shape shape, std::int64_t first, std::int64_t slice, std::span<const std::int32_t> tokens,
           const float* table, float* y);
void embed_gradient(Shape shape, std::int64_t first, std::int64_t slice, std::span<const std::int32_t> tokens,
                    const float* dy, float* dtable);
void add_positions(Shape shape, const kernels::Numbered& rows, const float* table, float* y);
void positions_gradient(Shape shape, const kernels::Numbered& rows, const float* dy, float* dtable);

// --- loss.cpp
// Logits have the columns first .. first + shape.columns of the vocabulary; those from `vocabulary` on are padding.
struct Slice {
  std::int64_t first = 0, vocabulary = 0;
};
void cross_entropy_local(Shape shape, Slice slice, std::span<const std::int32_t> targets, const float* logits,
                         float* part);
// Returns the sum of the losses of the rows.
double cross_entropy(std::int64_t rows, std::int64_t ranks, const float* parts, float* lse);
void cross_entropy_gradient(Shape shape, Slice slice, std::span<const std::int32_t> targets, std::int64_t total,
                            const float* lse, float* logits);
double squared_error(Shape shape, const float* y, const float* target);  // sum of squares
void squared_error_gradient(Shape shape, std::int64_t total, const float* y, const float* target, float* dy);

// --- optimizer.cpp
// Index of the first of the e elements that an optimizer kernel updates.
inline std::int64_t first_of_flat(std::int64_t flat, std::int64_t e, std::int64_t data) {
  return static_cast<Flat>(flat) == Flat::part ? data * e : 0;
}
// A step clears the gradient unless told to keep it.
void sgd(std::int64_t elements, const backend::TrainingData& learning, float* gradient, float* parameters);
void adamw(std::int64_t elements, const backend::TrainingData& learning, std::int64_t step, kernels::Step what,
           float* gradient, float* parameters, float* moments);
// `moment`: of rows, then of columns; for a single row, one moment per element.
void adalomo(Shape shape, const backend::TrainingData& learning, std::int64_t step, float* gradient, float* parameters,
             float* moment);
// A step on whole matrices (kernels/optimizer.hpp).
void momentum(std::int64_t elements, float* gradient, float* moment);
void over_frobenius(std::int64_t elements, float* x);
void newton_schulz(const Kernel& kernel, const float* a, float* b);
void muon(std::int64_t elements, const backend::TrainingData& learning, float* update, float* parameters);
double sum_of_squares(std::span<const Range> ranges, const float* values);

}  // namespace rehearsal::cpu
