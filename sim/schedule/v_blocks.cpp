#include "schedule/v_blocks.hpp"

#include <algorithm>
#include <utility>

namespace rehearsal::schedule::v_blocks {
namespace {

constexpr std::array kPasses{kF0, kF1, kI1, kI0};  // a micro-batch down the V, up, and back

}  // namespace

std::optional<std::vector<Block>> rows(Block block, std::uint32_t ranks, std::uint32_t upper, std::uint32_t x_upper,
                                       std::uint32_t x_lower) {
  std::vector<Block> blocks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    unsigned taken = 0;
    for (const Kind kind : kPasses) {
      if (rank > 0) block[kind] += std::uint8_t(!downwards(kind) ? kPeriod - 1 : rank <= upper ? x_upper : x_lower);
      block[kind] = std::uint8_t(block[kind] % kPeriod);
      if (taken >> block[kind] & 1u) return std::nullopt;
      taken |= 1u << block[kind];
    }
    for (const Kind kind : {kI1, kI0}) {
      std::uint8_t& cell = block[weight_of(kind)] = block[kind];
      while (taken >> cell & 1u) cell = std::uint8_t((cell + 1) % kPeriod);
      taken |= 1u << cell;
    }
    blocks.push_back(block);
  }
  return blocks;
}

Grid::Grid(const std::vector<Block>& blocks, std::uint32_t microbatches)
    : Grid(std::uint32_t(blocks.size()), microbatches) {
  std::size_t cell = 0;
  const auto lay = [&](std::uint32_t rank, Kind kind) {
    std::size_t at = cell + (blocks[rank][kind] + kPeriod - cell % kPeriod) % kPeriod;
    const std::size_t next = at + 1;
    for (std::uint32_t k = 0; k < microbatches; ++k, at += kPeriod) line(rank)[at] = kind;
    length_ = std::max(length_, at - kPeriod + 1);
    return next;
  };
  for (const Kind kind : kPasses)
    for (std::uint32_t step = 0; step < ranks_; ++step) {
      const std::uint32_t rank = downwards(kind) ? step : ranks_ - 1 - step;
      cell = lay(rank, kind);
      if (is_gradient(kind)) lay(rank, weight_of(kind));
    }
}

std::uint32_t Grid::peak(std::size_t rank) const {
  std::int32_t now = 0, most = 0;
  for (std::size_t cell = 0; cell < length_; ++cell) most = std::max(most, now += change_of(line(rank)[cell]));
  return std::uint32_t(most);
}

std::uint32_t Grid::peak() const {
  std::uint32_t most = 0;
  for (std::size_t rank = 0; rank < ranks_; ++rank) most = std::max(most, peak(rank));
  return most;
}

bool squeeze(Grid& grid, std::uint32_t microbatches) {
  const std::size_t p = grid.ranks();
  Grid moved = grid;
  Placed placed(grid.ranks(), microbatches);
  std::vector<std::size_t> end(p);
  for (std::size_t rank = 0; rank < p; ++rank) std::fill_n(moved.line(rank), grid.length(), kNone);
  const auto move = [&](std::size_t rank, Kind kind) {
    const std::size_t ready = frees(kind) ? 0 : placed.ready(rank, kind), cell = std::max(end[rank], ready);
    if (placed.count(rank, kind) == microbatches || cell >= grid.widest()) return false;
    moved.line(rank)[cell] = kind;
    placed.put(rank, kind, cell);
    end[rank] = cell + 1;
    return true;
  };
  // In a cell what flows down goes first, rank by rank, then what flows up.
  for (std::size_t cell = 0; cell < grid.length(); ++cell) {
    const Kind* const column = grid.line(0) + cell;
    for (const bool down : {true, false})
      for (std::size_t step = 0; step < p; ++step) {
        const std::size_t rank = down ? step : p - 1 - step;
        const Kind kind = column[rank * grid.widest()];
        if (kind != kNone && down == downwards(kind) && !move(rank, kind)) return false;
      }
  }
  moved.set_length(*std::max_element(end.begin(), end.end()));
  grid = std::move(moved);
  return true;
}

bool settle_weights(Grid& grid) {
  const std::size_t end = grid.length();
  std::size_t longest = end;
  for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
    Kind* const line = grid.line(rank);
    std::int32_t waiting1 = 0, waiting0 = 0;
    std::size_t settled = end;
    while (settled > 0 && !frees(line[settled - 1])) --settled;
    for (std::size_t cell = 0; cell < end || waiting1 + waiting0 > 0; ++cell) {
      if (cell >= grid.widest()) return false;
      Kind& kind = line[cell];
      if (kind == kNone && cell >= settled && (waiting1 > 0 || waiting0 > 0)) {
        kind = waiting1 > 0 ? kW1 : kW0;
        longest = std::max(longest, cell + 1);
      }
      waiting1 += (kind == kI1) - (kind == kW1);
      waiting0 += (kind == kI0) - (kind == kW0);
    }
  }
  grid.set_length(longest);
  return true;
}

Action action(const Problem& problem, std::uint32_t rank, Kind kind, std::uint32_t microbatch) {
  constexpr std::array kOp{Op::forward,        Op::forward,         Op::input_gradient,
                           Op::input_gradient, Op::weight_gradient, Op::weight_gradient};
  const bool first_chunk = kind == kF0 || kind == kI0 || kind == kW0;
  const auto stage = stage_of(Placement::vee, problem, rank, first_chunk ? 0 : 1);
  return {microbatch, static_cast<std::uint16_t>(stage), kOp[kind]};
}

Planned program(const Problem& problem, const Grid& grid, bool whole) {
  Planned plan;
  plan.ranks.resize(problem.ranks);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    Counts next{};
    for (std::size_t cell = 0; cell < grid.length(); ++cell) {
      const Kind kind = grid.line(rank)[cell];
      if (kind == kNone || (whole && frees(kind))) continue;
      Action& next_action = plan.ranks[rank].emplace_back(action(problem, rank, kind, next[kind]++));
      if (whole && is_gradient(kind)) next_action.op = Op::backward;
    }
  }
  return plan;
}

}  // namespace rehearsal::schedule::v_blocks
