// The cells of a pipelining CSV (csv.hpp) with their places, before anything is known about the schedule.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

enum CellKind : std::uint8_t { kSendForward, kReceiveForward, kSendBackward, kReceiveBackward, kCompute };
inline constexpr const char* kMessages[]{"SEND_F", "RECV_F", "SEND_B", "RECV_B"};
constexpr bool sends(CellKind kind) { return kind == kSendForward || kind == kSendBackward; }
constexpr bool of_forward(CellKind kind) { return kind == kSendForward || kind == kReceiveForward; }

// An overlapped pair is two cells at one place, the first with overlaps_next.
struct Cell {
  Action action;                                 // of a message: the stage and micro-batch that it names, op unused
  std::uint32_t rank = 0, line = 0, column = 0;  // line and column from 1, in the file
  std::uint32_t index = 0;                       // from 0, in the row
  std::optional<std::uint32_t> piece = {};       // counted in the action's micro-batch once all cells are read
  CellKind kind = kCompute;
  bool both = false;  // BW of the older dialect

  bool is(Op op) const { return kind == kCompute && action.op == op; }
};

struct Sheet {
  std::string file;
  std::vector<Cell> cells;            // rank by rank
  std::vector<std::size_t> begin{0};  // per rank: its first cell; and the end
  std::vector<Location> row_ends;     // per rank: where one more cell would go
  std::uint32_t pieces = 1;           // micro-batch numbers are micro-batch * pieces + piece
  std::uint64_t sharding = 0;         // UNSHARD, RESHARD and REDUCE_GRAD cells, left out

  Location at(const Cell& cell) const { return {file, int(cell.line), int(cell.column)}; }
  template <class Test>
  const Cell* find(const Test& test) const {
    const auto found = std::find_if(cells.begin(), cells.end(), test);
    return found == cells.end() ? nullptr : &*found;
  }
};

// Throws UserError with every cell that cannot be read (the first twenty). The older dialect comes out as the newer.
Sheet read_cells(std::string_view text, const std::string& file);

}  // namespace rehearsal::schedule
