#include <algorithm>

#include "base/error.hpp"
#include "cpu/functions.hpp"

namespace rehearsal::cpu {
namespace {

void check(Shape shape, std::span<const std::int32_t> tokens) {
  INVARIANT(static_cast<std::int64_t>(tokens.size()) == shape.rows, "one token per row");
}

}  // namespace

// Rows of tokens in another rank's slice become 0, so that the sum over ranks is the whole result.
void embed(Shape shape, std::int64_t first, std::int64_t slice, std::span<const std::int32_t> tokens,
           const float* table, float* y) {
  check(shape, tokens);
  for (const std::int32_t token : tokens) {
    const std::int64_t row = token - first;
    if (row >= 0 && row < slice)
      std::copy_n(table + row * shape.columns, shape.columns, y);
    else
      std::fill_n(y, shape.columns, 0.f);
    y += shape.columns;
  }
}

void embed_gradient(Shape shape, std::int64_t first, std::int64_t slice, std::span<const std::int32_t> tokens,
                    const float* dy, float* dtable) {
  check(shape, tokens);
  for (const std::int32_t token : tokens) {
    const std::int64_t row = token - first;
    if (row >= 0 && row < slice) add(shape.columns, dy, dtable + row * shape.columns);
    dy += shape.columns;
  }
}

void add_positions(Shape shape, const kernels::Numbered& rows, const float* table, float* y) {
  for (std::int64_t i = 0; i < shape.rows; ++i)
    add(shape.columns, table + rows.position(i) * shape.columns, y + i * shape.columns);
}

void positions_gradient(Shape shape, const kernels::Numbered& rows, const float* dy, float* dtable) {
  for (std::int64_t i = 0; i < shape.rows; ++i)
    add(shape.columns, dy + i * shape.columns, dtable + rows.position(i) * shape.columns);
}

}  // namespace rehearsal::cpu
