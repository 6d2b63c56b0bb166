// The layout of a tensor on a mesh of devices.
//
// A mesh has `rows` hosts of `columns` GPUs; device id = row * columns + column. A sharding spec such as S0RR or S01R
// gives, for every dimension of the tensor, the mesh axes over which it is split (axis 0 = rows, 1 = columns). An axis
// that is not used replicates: devices that differ only along it hold the same box.
//
// A dimension of n elements in p parts has parts of ceil(n / p), the last ones shorter or empty (as in DTensor and
// GSPMD).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::reshard {

struct Mesh {
  std::uint32_t rows = 1, columns = 1;
  std::uint32_t devices() const { return rows * columns; }
  std::uint32_t row_of(std::uint32_t device) const { return device / columns; }
};

// Axes in order of significance: {} = R, {0} = S0, {0, 1} = S01 (index row * columns + column), {1, 0} = S10 (index
// column * rows + row).
using Split = std::vector<std::uint8_t>;
using ShardingSpec = std::vector<Split>;  // one entry per dimension

// Parses "S0RR" and the like; throws UserError that names the violated rule: tokens R S0 S1 S01 S10, no axis twice.
ShardingSpec parse_spec(std::string_view text);
std::string to_text(const ShardingSpec& spec);

struct Interval {
  std::int64_t low = 0, high = 0;  // [low, high)
  std::int64_t length() const { return high - low; }
  bool operator==(const Interval&) const = default;
};
using Box = std::vector<Interval>;
std::int64_t elements(const Box& box);
// Empty if they do not overlap.
Box intersection(const Box& a, const Box& b);

// A box and the devices that hold it, ascending.
struct Tile {
  Box box;
  std::vector<std::uint32_t> devices;
};

struct Layout {
  Mesh mesh;
  ShardingSpec spec;
  std::uint32_t parts(std::size_t dimension) const;
};

// The tiles of a tensor, row-major over the grid of parts. Empty tiles (uneven shards) stay in the list, so
// that a tile's index is its position in the grid.
std::vector<Tile> tiles_of(const Layout& layout, const std::vector<std::int64_t>& shape);

// The holders of each tile and their hosts: the planner's view of a tensor, however its tiles came about. A device
// may hold several tiles.
struct Side {
  std::vector<Tile> tiles;
  std::vector<std::uint32_t> host;  // by device; ascending from 0
  std::vector<std::uint32_t> rail;  // by device: its position on its host; with a NIC per GPU also the NIC's rail
  std::uint32_t hosts() const { return host.empty() ? 0 : host.back() + 1; }
  std::uint32_t devices() const { return static_cast<std::uint32_t>(host.size()); }
};
Side side_of(const Layout& layout, const std::vector<std::int64_t>& shape);  // a mesh row is a host

}  // namespace rehearsal::reshard
