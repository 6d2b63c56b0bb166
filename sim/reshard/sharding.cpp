#include "reshard/sharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace rehearsal::reshard {
namespace {

std::string token(const Split& split) {
  if (split.empty()) return "R";
  std::string text = "S";
  for (const auto axis : split) text += std::to_string(axis);
  return text;
}

// The part of a dimension that a device holds.
std::uint32_t part_of(const Split& split, const Mesh& mesh, std::uint32_t device) {
  const std::array<std::uint32_t, 2> at{mesh.row_of(device), device % mesh.columns}, size{mesh.rows, mesh.columns};
  std::uint32_t part = 0;
  for (const auto axis : split) part = part * size[axis] + at[axis];
  return part;
}

}  // namespace

ShardingSpec parse_spec(std::string_view text) {
  constexpr std::string_view kRule = "a spec has one of R, S0, S1, S01, S10 per dimension, such as S0RR";
  ShardingSpec spec;
  std::array<bool, 2> used{};
  for (std::size_t i = 0; i < text.size();) {
    Split split;
    const char letter = text[i++];
    if (letter != 'R' && letter != 'S')
      throw UserError(fmt::format("'{}' at place {} of spec '{}'; {}", letter, i, text, kRule));
    while (letter == 'S' && i < text.size() && text[i] >= '0' && text[i] <= '9') {
      const auto axis = static_cast<std::uint8_t>(text[i++] - '0');
      if (axis > 1)
        throw UserError(
            fmt::format("spec '{}' names mesh axis {}; a mesh has axes 0 (rows) and 1 (columns)", text, axis));
      if (used[axis])
        throw UserError(
            fmt::format("spec '{}' names mesh axis {} twice; an axis can split one dimension only", text, axis));
      used[axis] = true;
      split.push_back(axis);
    }
    if (letter == 'S' && split.empty())
      throw UserError(fmt::format("'S' without an axis in spec '{}'; {}", text, kRule));
    spec.push_back(std::move(split));
  }
  if (spec.empty()) throw UserError(fmt::format("an empty spec; {}", kRule));
  return spec;
}

std::string to_text(const ShardingSpec& spec) {
  std::string text;
  for (const auto& split : spec) text += token(split);
  return text;
}

std::int64_t elements(const Box& box) {
  std::int64_t product = box.empty() ? 0 : 1;
  for (const auto& side : box) product *= side.length();
  return product;
}

Box intersection(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.size(); d++) {
    const Interval side{std::max(a[d].low, b[d].low), std::min(a[d].high, b[d].high)};
    if (side.low >= side.high) return {};
    both.push_back(side);
  }
  return both;
}

std::uint32_t Layout::parts(std::size_t dimension) const {
  std::uint32_t product = 1;
  for (const auto axis : spec[dimension]) product *= axis == 0 ? mesh.rows : mesh.columns;
  return product;
}

std::vector<Tile> tiles_of(const Layout& layout, const std::vector<std::int64_t>& shape) {
  INVARIANT(shape.size() == layout.spec.size(), "a spec of another rank than its tensor");
  std::size_t count = 1;
  for (std::size_t d = 0; d < shape.size(); d++) count *= layout.parts(d);
  std::vector<Tile> tiles(count);
  for (std::size_t index = 0; index < count; index++) {
    auto& box = tiles[index].box;
    box.resize(shape.size());
    std::size_t rest = index;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto parts = std::int64_t(layout.parts(d)), part = std::int64_t(rest % std::size_t(parts));
      rest /= std::size_t(parts);
      const std::int64_t length = (shape[d] + parts - 1) / parts;
      box[d] = {std::min(part * length, shape[d]), std::min((part + 1) * length, shape[d])};
    }
  }
  for (std::uint32_t device = 0; device < layout.mesh.devices(); device++) {
    std::size_t index = 0;
    for (std::size_t d = 0; d < shape.size(); d++)
      index = index * layout.parts(d) + part_of(layout.spec[d], layout.mesh, device);
    tiles[index].devices.push_back(device);
  }
  return tiles;
}

Side side_of(const Layout& layout, const std::vector<std::int64_t>& shape) {
  Side side{tiles_of(layout, shape), {}, {}};
  for (std::uint32_t device = 0; device < layout.mesh.devices(); device++) {
    side.host.push_back(layout.mesh.row_of(device));
    side.rail.push_back(device % layout.mesh.columns);
  }
  return side;
}

}  // namespace rehearsal::reshard
