#include "plan/stage_boundaries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"

namespace rehearsal::plan {
namespace {

using reshard::Box;

// Rows [low, high) in sequence-by-sequence order: part of a sequence, whole ones, part of one.
void add_rows(std::vector<HeldBox>& held, const BoundaryShape& shape, std::int64_t low, std::int64_t high) {
  const auto tokens = shape[1], start = low;
  while (low < high) {
    const std::int64_t sequence = low / tokens, token = low % tokens;
    const bool whole = token == 0 && high - low >= tokens;
    const std::int64_t sequences = whole ? (high - low) / tokens : 1;
    const std::int64_t to = whole ? tokens : std::min(tokens, token + high - low);
    held.push_back({{{sequence, sequence + sequences}, {token, to}, {0, shape[2]}}, low - start, tokens});
    low = whole ? low + sequences * tokens : low + to - token;
  }
}

std::vector<HeldBox> held_by(const StageLayout& layout, const RankPlace& place, const BoundaryShape& shape,
                             bool balances_context) {
  const auto [sequences, tokens, hidden] = shape;
  const std::int64_t each = sequences / layout.data, first = std::int64_t(place[Axis::data]) * each;
  std::vector<HeldBox> held;
  if (layout.context == 1) {
    const std::int64_t parts = layout.sequence ? layout.tensor : 1, rows = each * tokens / parts;
    const auto low = first * tokens + (layout.sequence ? std::int64_t(place[Axis::tensor]) * rows : 0);
    add_rows(held, shape, low, low + rows);
    return held;
  }
  const std::int64_t c = place[Axis::context], mine = tokens / layout.context;
  const auto piece = [&, hidden = hidden](std::int64_t low, std::int64_t length, std::int64_t at) {
    held.push_back({{{first, first + each}, {low, low + length}, {0, hidden}}, at, mine});
  };
  if (!balances_context) {
    piece(c * mine, mine, 0);
  } else {
    const std::int64_t half = mine / 2;
    piece(c * half, half, 0), piece((2 * layout.context - 1 - c) * half, half, half);
  }
  return held;
}

// The box that a sharding gives a rank: over (data x context, tensor).
Box share_of(const StageLayout& layout, const std::vector<reshard::Tile>& tiles, const RankPlace& place) {
  const auto row = place[Axis::data] * static_cast<std::uint32_t>(layout.context) + place[Axis::context];
  const auto device = row * static_cast<std::uint32_t>(layout.tensor) + place[Axis::tensor];
  for (const auto& tile : tiles)
    if (std::binary_search(tile.devices.begin(), tile.devices.end(), device)) return tile.box;
  return {};
}

}  // namespace

StageBoundary stage_boundary_of(const StageLayout& layout, const Mesh& mesh, const BoundaryShape& shape,
                                bool balances_context) {
  StageBoundary border{shape, {}, {}, {}};
  const auto ranks = static_cast<std::uint32_t>(layout.ranks());
  std::vector<reshard::Tile> tiles;
  if (layout.sharding) {
    if (layout.sharding->size() != shape.size())
      throw UserError(
          fmt::format("'sharding' {} is of {} dimensions, and an activation has three: sequences, tokens, "
                      "hidden",
                      reshard::to_text(*layout.sharding), layout.sharding->size()));
    const reshard::Mesh devices{static_cast<std::uint32_t>(layout.data * layout.context),
                                static_cast<std::uint32_t>(layout.tensor)};
    tiles = reshard::tiles_of({devices, *layout.sharding}, {shape.begin(), shape.end()});
  }
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto place = mesh.at(r);
    border.held.push_back(held_by(layout, place, shape, balances_context));
    auto& own = border.own.emplace_back();
    if (!layout.sharding) {
      for (const auto& held : border.held.back()) own.push_back(held.box);
      continue;
    }
    const auto share = share_of(layout, tiles, place);
    std::int64_t here = 0;
    for (const auto& held : border.held.back())
      if (auto box = reshard::intersection(share, held.box); reshard::elements(box) > 0)
        here += reshard::elements(box), own.push_back(std::move(box));
    if (here != reshard::elements(share))
      throw UserError(fmt::format(
          "'sharding' {} gives rank {} of the stage a part of the activation ({} x {} x {}) that it does not compute "
          "with: replicas have sequences of their own, so the first dimension must be split over axis 0 (data x "
          "context); for data {} x context {} x tensor {}{} use {} or S0RS1",
          reshard::to_text(*layout.sharding), r, shape[0], shape[1], shape[2], layout.data, layout.context,
          layout.tensor, layout.sequence ? " with sequence parallelism" : "", layout.sequence ? "S0S1R" : "S0RR"));
  }
  if (!layout.sharding) return border;
  // Ranks that hold the same.
  std::map<std::vector<std::int64_t>, std::vector<std::uint32_t>> alike;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::vector<std::int64_t> key;
    for (const auto& held : border.held[r])
      for (const auto& side : held.box) key.push_back(side.low), key.push_back(side.high);
    alike[key].push_back(r);
  }
  for (const auto& [key, group] : alike) {
    std::int64_t whole = 0, owned = 0;
    for (const auto& held : border.held[group.front()]) whole += reshard::elements(held.box);
    for (const auto r : group)
      for (const auto& box : border.own[r]) owned += reshard::elements(box);
    if (owned == whole * std::int64_t(group.size())) continue;  // each owns all of it
    if (owned != whole)
      throw UserError(fmt::format(
          "'sharding' {} leaves parts of the activation with some tensor ranks twice and with others not at all; split "
          "one dimension over axis 1 (tensor), or none",
          reshard::to_text(*layout.sharding)));
    border.gather.push_back(group);
  }
  return border;
}

}  // namespace rehearsal::plan
