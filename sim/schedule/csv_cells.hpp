// The cells of a pipelining CSV (csv.hpp) with their places, before anything is known about the schedule.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

enum class CellKind : std::uint8_t { compute, send_forward, receive_forward, send_backward, receive_backward };

// An overlapped pair is two cells at one place, the first with overlaps_next.
struct Cell {
  Action action;  // of a message: the stage and micro-batch that it names, op unused
  CellKind kind = CellKind::compute;
  std::uint32_t line = 0, column = 0;  // from 1, in the file
  std::uint32_t index = 0;             // from 0, in the row
};

struct Sheet {
  std::string file;
  std::vector<std::vector<Cell>> rows;  // per rank
  std::vector<Location> row_ends;       // per rank: where one more cell would go
  std::uint32_t pieces = 1;             // micro-batch numbers are micro-batch * pieces + piece
  bool messages = false;                // has any SEND or RECV
  std::uint64_t sharding = 0;           // UNSHARD, RESHARD and REDUCE_GRAD cells, left out of the rows

  Location at(const Cell& cell) const { return {file, int(cell.line), int(cell.column)}; }
  std::string place(std::uint32_t rank, const Cell& cell) const;  // "rank 2, cell 17"
  std::string text(Action action) const;                          // "3F0", "3F0.1"
};

// Throws UserError with every cell that cannot be read (the first twenty). The older dialect comes out as the newer.
Sheet read_cells(std::string_view text, const std::string& file);

}  // namespace rehearsal::schedule
