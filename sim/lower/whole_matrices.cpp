#include "lower/whole_matrices.hpp"

#include <algorithm>
#include <map>

#include "models/traffic.hpp"

namespace rehearsal::lower {

using graph::Access;
using graph::BufferUse;
using graph::Coordinates;
using graph::MemoryCategory;

namespace {

constexpr int kIterations = 5;

Kernel product(KernelKind kind, std::int64_t rows, std::int64_t outputs, std::int64_t inputs,
               std::array<std::int64_t, 3> first) {
  Kernel kernel{.kind = kind, .dims = {rows, outputs, inputs}};
  std::copy(first.begin(), first.end(), kernel.offsets.begin());
  return kernel;
}

}  // namespace

BufferId WholeMatrices::made(std::int64_t elements) {
  return draft_.program.buffer({floats(elements), MemoryCategory::communication});
}

void WholeMatrices::wide(Kernel kernel, const Coordinates& at, const Uses& uses) {
  kernel.precision = Precision::fp32;
  sequencer_.compute(draft_.works.intern(kernel), at, uses);
}

// X / ||X||, then five times X' = a X + (b A + c A^2) X with A = X X^T, or X' = a X + X (b A + c A^2) with A = X^T X
// where that is smaller. work: A, then b A + c A^2, then its product with X. Weight gradients add up, so theirs begins
// clear.
void WholeMatrices::orthogonalise(const Shape& shape, BufferId matrix, std::int64_t first, BufferId work,
                                  const Coordinates& at) {
  const auto [r, c] = shape;
  const std::int64_t m = shape.side(), square = m * m, times_x = 2 * square;
  const bool rows = r <= c;
  const BufferUse x(matrix, Access::read), x_made(matrix, Access::write), seen(work, Access::read),
      made(work, Access::write);
  Kernel norm{.kind = KernelKind::over_frobenius, .dims = {shape.elements()}};
  norm.offsets[0] = first;
  wide(norm, at, {x_made});
  for (int i = 0; i < kIterations; ++i) {
    if (rows) {
      wide(product(KernelKind::linear, m, m, c, {first, first, 0}), at, {x, x, made});
    } else {
      wide({.kind = KernelKind::clear, .dims = {square}}, at, {made});
      wide(product(KernelKind::linear_weight_gradient, r, m, m, {first, first, 0}), at, {x, x, made});
    }
    wide(product(KernelKind::linear, m, m, m, {0, 0, square}), at, {seen, seen, made});
    Kernel inner{.kind = KernelKind::newton_schulz, .dims = {square, std::int64_t(NewtonSchulz::inner)}};
    inner.offsets[1] = square;
    wide(inner, at, {seen, made});
    if (rows)
      wide(product(KernelKind::linear_input_gradient, m, m, c, {square, first, times_x}), at, {seen, x, made});
    else
      wide(product(KernelKind::linear, r, m, m, {first, square, times_x}), at, {x, seen, made});
    const std::int64_t side = i + 1 == kIterations ? std::max(r, c) : 0;
    Kernel outer{.kind = KernelKind::newton_schulz,
                 .dims = {shape.elements(), std::int64_t(NewtonSchulz::outer), side}};
    outer.offsets[0] = times_x, outer.offsets[1] = first;
    wide(outer, at, {seen, x_made});
  }
}

// Matrices of one shape: packed one after the other, as many for each owner; what is beyond the last one is clear, and
// stays so.
void WholeMatrices::by_owners(const ShardState& held, const Shape& shape, const std::vector<std::int64_t>& places,
                              BufferId whole, BufferId work, const Coordinates& at) {
  const auto all = static_cast<std::int64_t>(places.size()), each = (all + held.shards - 1) / held.shards;
  const std::int64_t own = each * shape.elements();
  const BufferId packed = made(held.shards * own), mine = made(own);
  const auto copy = [&](std::int64_t number, bool back, const Uses& also) {
    Kernel kernel{.kind = KernelKind::copy, .dims = {shape.elements()}};
    const std::int64_t place = places[std::size_t(number)], pack = number * shape.elements();
    kernel.offsets = {back ? pack : place, back ? place : pack};
    Uses uses{{back ? packed : whole, Access::read}, {back ? whole : packed, Access::write}};
    uses.insert(uses.end(), also.begin(), also.end());
    wide(kernel, at, uses);
  };
  wide({.kind = KernelKind::clear, .dims = {held.shards * own}}, at,
       {{packed, Access::allocate}, {packed, Access::write}});
  for (std::int64_t n = 0; n < all; ++n) copy(n, false, {});
  wide({.kind = KernelKind::clear, .dims = {own}}, at, {{mine, Access::allocate}, {mine, Access::write}});
  wide({.kind = KernelKind::add_own_shard, .dims = {own, dim_of(held.along)}}, at,
       {{packed, Access::read}, {mine, Access::write}});
  for (std::int64_t n = 0; n < each; ++n) orthogonalise(shape, mine, n * shape.elements(), work, at);
  const Uses gathers{{mine, Access::read}, {packed, Access::write}, {mine, Access::free}};
  sequencer_.collective(CollectiveKind::all_gather, Precision::fp32, held.shards * own, at, gathers, held.replicas);
  for (std::int64_t n = 0; n < all; ++n) {
    Uses also;
    if (n + 1 == all) also.emplace_back(packed, Access::free);
    copy(n, true, also);
  }
}

void WholeMatrices::step(const ShardState& held, models::OwnShard own, BufferId gradient, bool shard,
                         const Coordinates& at, std::optional<BufferId> free) {
  const bool sharded = held.shards > 1;
  Kernel momentum = own.flat(KernelKind::momentum);
  momentum.dims[2] = 0;  // of parameters, which it does not name
  sequencer_.kernel(momentum, at, Uses{{gradient, Access::write}, {*held.states, Access::write}});
  BufferId whole = gradient;
  if (sharded) {
    Uses uses{{gradient, shard ? Access::read : Access::write}};
    if (shard) {
      whole = made(held.elements);
      uses.insert(uses.end(), {{whole, Access::allocate}, {whole, Access::write}});
    }
    sequencer_.collective(CollectiveKind::all_gather, Precision::fp32, held.elements, at, uses, held.replicas);
  }
  std::map<Shape, std::vector<std::int64_t>> shapes;
  std::int64_t most = 0;
  for (const auto& m : models::matrices_of(own.tensors)) {
    const Shape shape{m.rows, m.columns};
    shapes[shape].push_back(m.offset), most = std::max(most, shape.work());
  }
  const BufferId work = made(most);
  wide({.kind = KernelKind::clear, .dims = {most}}, at, {{work, Access::allocate}, {work, Access::write}});
  for (const auto& [shape, places] : shapes) {
    if (sharded)
      by_owners(held, shape, places, whole, work, at);
    else
      for (const auto place : places) orthogonalise(shape, whole, place, work, at);
  }
  Uses uses{{whole, Access::write}, {held.parameters, Access::write}, {work, Access::free}};
  if (models::keeps_master(*draft_.pipe.plan->job.training.optimizer, own.precision))
    uses.insert(uses.begin() + 2, {*held.states, Access::write});
  if (sharded) own.gradient = Flat::part;
  if (whole != gradient) uses.emplace_back(whole, Access::free);
  if (free) uses.emplace_back(*free, Access::free);
  Kernel kernel = own.flat(KernelKind::muon);
  kernel.offsets[2] = held.shard();  // the master copy, behind the momentum
  if (!keeps_master(kernel)) kernel.offsets[2] = 0;
  sequencer_.kernel(kernel, at, uses);
  if (whole != gradient && !free) {
    const BufferUse clears(gradient, Access::write);
    wide({.kind = KernelKind::clear, .dims = {held.shard()}}, at, {clears});
  }
}

}  // namespace rehearsal::lower
