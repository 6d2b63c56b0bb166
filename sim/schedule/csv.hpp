// Orders in the CSV of torch.distributed.pipelining, to and from files.
//
// One row per rank, one cell per action: `3F0` = forward of stage 3, micro-batch 0; I, W, B = input gradient, weight
// gradient, both; `(0F7;7B3)OVERLAP_F_B` = a pair that runs as one block. An empty cell is an idle slot. Messages:
// `0SEND_F0` and `1RECV_F0` hand the activation of stage 0 to stage 1; `3SEND_B0` and `2RECV_B0` a gradient back.
// UNSHARD, RESHARD and REDUCE_GRAD (of sharded weights) have no micro-batch. Two additions of ours: `3F0.1` is piece 1
// of a micro-batch that is cut into pieces, and rows may hold spaces around cells.
// Older files of that project write B for the input gradient and BW for both; they are told by a BW, or by a stage with
// both B and W for one micro-batch.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

struct Imported {
  Schedule schedule;  // walks the cells of the file; accepts only problems of its own size
  std::uint32_t ranks = 0, microbatches = 0, chunks = 0;
  std::optional<std::uint32_t> pieces;
  std::vector<std::uint32_t> stage_ranks;  // Problem::stage_ranks of its problems
  std::vector<std::string> warnings;       // what the file says and a Schedule cannot
};

// Deduces from the cells which rank holds which stage, and checks that the order is complete, legal and free of
// deadlock. Throws UserError with file, line and column: all cells that cannot be read, or the first one that is wrong,
// with what would be legal there. The schedule is named `name`.
Imported import_csv(std::string_view text, const std::string& file, const std::string& name);

struct CsvStyle {
  // With SEND and RECV cells in the order in which torch.distributed.pipelining runs them: a weight gradient right
  // after its input gradient becomes one B, every result is sent at once, every receive is posted at the time of its
  // send. Not for orders with pieces.
  bool messages = false;
};
// The text is handed to `write` in pieces; without messages no order is stored whole.
void export_csv(const Schedule& schedule, const Problem& problem, CsvStyle style,
                const std::function<void(std::string_view)>& write);

}  // namespace rehearsal::schedule
