// Linear operators that are run in tiles (ZeRO-Infinity, arXiv 2104.07857, section 5.1.3; DeepSpeed's TiledLinear,
// deepspeed/runtime/zero/tiling.py, with out_splits): their columns are split, so that every tile is a linear operator
// with its own parameters. The outputs of all tiles are copied together. In the backward each tile makes a partial sum
// of the input's gradient over its own columns; autograd adds them up, with a kernel for each tile but the first.
#include <algorithm>
#include <utility>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

Gemm with_columns(Gemm product, std::int64_t columns) {
  product.n = columns;
  return product;
}

}  // namespace

// The tiles of a layer's operator; experts are small by themselves, and the look-up splits the vocabulary by rows. A
// column is never split.
std::vector<FrameworkRewrite::TileShape> FrameworkRewrite::tiles_of(const Operator& op) const {
  const std::int64_t n = block_.columns(op.out), count = std::min(run_.training.offload.tiles, n);
  if (count == 1 || op.section == Section::none) return {};
  double parameters = 0;
  for (const auto p : op.parameters) parameters += double(block_.tensor(p).elements());
  std::vector<TileShape> tiles;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t columns = n * (i + 1) / count - n * i / count;
    tiles.push_back({columns, parameters / double(n) * double(columns)});
  }
  return tiles;
}

void FrameworkRewrite::forward_tiles(const Operator& op, const Operands& inputs, const std::vector<TileShape>& tiles) {
  const auto whole = product(op);
  first_tile_[&op] = static_cast<std::uint16_t>(part_.tiles.size());
  Operands made;
  for (const auto& tile : tiles) {
    const Index columns = value(element_ * double(whole.m) * double(tile.columns));
    Step step{op.name, with_columns(whole, tile.columns), inputs};
    step.operands.push_back(write(columns));
    step.tile = static_cast<std::uint16_t>(part_.tiles.size());
    part_.tiles.push_back(tile.parameters);
    part_.forward.push_back(std::move(step));
    made.push_back(read(columns));
  }
  for (const auto v : op.out) made.push_back(write(v));
  part_.forward.push_back(
      plain("tiles together", 2 * element_ * double(whole.m) * double(whole.n), 1, std::move(made)));
}

// `step` and `weight`: of the whole operator, with their operands. Anything gathered again is gathered for the first
// tile.
void FrameworkRewrite::backward_tiles(Step step, const WeightGradient& weight, Index in,
                                      const std::vector<TileShape>& tiles) {
  auto& list = part_.input_gradient_steps;
  const Index sum = gradient_of(in);
  const auto* beside = std::get_if<OverlappedKernel>(&step.what);
  const Gemm whole = input_gradient(beside ? std::get<Gemm>(beside->piece) : std::get<Gemm>(step.what));
  auto next = *step.tile;
  for (const auto& tile : tiles) {
    const bool first = &tile == &tiles.front();
    const auto forward = with_columns(whole, tile.columns);
    Step own = step;
    if (auto* overlapped = first ? std::get_if<OverlappedKernel>(&own.what) : nullptr)
      overlapped->piece = input_gradient(forward);
    else
      own.what = input_gradient(forward);
    const Index partial = first ? sum : like(in);
    own.operands.push_back(write(partial));
    own.tile = next;
    list.push_back(std::move(own));
    auto gradient = weight;
    gradient.step.what = weight_gradient(forward);
    gradient.step.completes = next++;
    weights_.push_back(std::move(gradient));
    if (!first)
      list.push_back(plain("sum of tiles", 3 * element_ * double(block_.values[in].elements), 1,
                           {read(sum), read(partial), write(sum)}));
  }
}

}  // namespace rehearsal::models
