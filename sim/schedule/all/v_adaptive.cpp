// V-schedule for any memory limit (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, appendix A; the
// search of sail-sg's v_auto_schedule): tries building blocks (v_blocks.hpp), makes an order of each and keeps the
// cheapest within the limit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/v_blocks.hpp"

namespace rehearsal::schedule {
namespace {

using namespace v_blocks;

// Makes an order of a block: its fill and its drain are written anew, empty cells are filled. Looks at no times.
class Builder {
 public:
  // `limit`: the most activations of a rank, at most 2p.
  Builder(std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t limit)
      : p_(ranks), wanted_(microbatches), limit_(limit), m_(std::max(microbatches, 2 * ranks)), grid_(ranks, m_) {}

  enum Result : std::uint8_t {
    built,       // in grid()
    over_limit,  // holds too much
    impossible   // the rearranged fill or drain does not fit
  };
  Result build(const std::vector<Block>& blocks) {
    grid_ = Grid(blocks, m_);
    std::uint32_t allowed = grid_.peak();
    if (allowed > 2 * p_ || (m_ == wanted_ && allowed > limit_)) return over_limit;
    if (!refill(allowed) || !squeeze(grid_, m_)) return impossible;
    std::uint32_t held = grid_.peak();
    if (held > allowed) return impossible;
    if (wanted_ < m_) {
      keep_first();
      if (wanted_ <= p_ && 2 * wanted_ <= limit_) put_off_weights(held);
      if (!squeeze(grid_, wanted_)) return impossible;
      held = allowed = grid_.peak();
      if (allowed > limit_) return over_limit;
    }
    if (!redrain(held)) return impossible;
    held = grid_.peak();
    fill_holes(std::int32_t(held));
    return relabel_weights() && (held <= allowed || grid_.peak() <= allowed) ? built : impossible;
  }
  const Grid& grid() const { return grid_; }

 private:
  // Writes into an empty cell; false if it is taken (the block is then given up) or outside.
  bool put(std::size_t rank, std::int64_t cell, Kind kind) {
    if (cell < 0 || std::size_t(cell) >= grid_.widest()) return false;
    Kind& at = grid_.line(rank)[cell];
    if (at != kNone) return false;
    at = kind;
    grid_.set_length(std::max(grid_.length(), std::size_t(cell) + 1));
    return true;
  }

  // The fill, up to the first I0 of each rank, written anew: as many F0 and F1 as the peak allows (F1 no more than the
  // rank's distance from rank 0), then I1, W1 and a forward in turn.
  bool refill(std::uint32_t most) {
    for (std::uint32_t rank = 0; rank < p_; ++rank) {
      const std::uint32_t upper = std::min(rank + 1, most / 2), lower = std::min(most - upper, m_);
      Kind* const line = grid_.line(rank);
      Counts had{}, used{};
      for (std::size_t at = 0; at < grid_.length() && line[at] != kI0; ++at) {
        if (line[at] == kNone) continue;
        if (line[at] == kW0) return false;
        ++had[line[at]];
        line[at] = kNone;
      }
      std::int64_t cell = rank;
      bool fits = true;
      const auto take = [&](Kind kind, std::uint32_t at_most) {
        if (used[kind] >= std::min(at_most, had[kind])) return false;
        ++used[kind];
        fits = fits && put(rank, cell, kind);
        return true;
      };
      for (std::uint32_t n = 0; n < 2 * (p_ - 1 - rank); ++n, ++cell) take(kF0, lower);
      for (std::uint32_t n = 0; n < rank + 1; ++n) {
        take(kF0, lower), ++cell;
        take(kF1, upper), ++cell;
      }
      while (fits && used != had) {
        take(kI1, m_), ++cell;
        take(kW1, m_), ++cell;
        if (!take(kF1, m_)) take(kF0, m_);
        ++cell;
      }
      if (!fits) return false;
    }
    return true;
  }

  // Leaves out the micro-batches that are not wanted.
  void keep_first() {
    for (std::size_t rank = 0; rank < p_; ++rank) {
      Kind* const line = grid_.line(rank);
      Counts count{};
      for (std::size_t cell = 0; cell < grid_.length(); ++cell)
        if (line[cell] != kNone && count[line[cell]]++ >= wanted_) line[cell] = kNone;
    }
  }

  // With few micro-batches the fill does not use the memory there is: its weight gradients go to the end.
  void put_off_weights(std::uint32_t limit) {
    const std::size_t end = grid_.length();
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < p_; ++rank) {
      Kind* const line = grid_.line(rank);
      const std::uint32_t own = grid_.peak(rank);
      std::size_t later = 0;
      for (std::size_t cell = 0; cell < end && own + later < limit && end + later < grid_.widest(); ++cell) {
        if (!frees(line[cell])) continue;
        line[end + later++] = line[cell];
        line[cell] = kNone;
      }
      most = std::max(most, later);
    }
    grid_.set_length(end + most);
  }

  // The drain written anew: the last I1 and I0 of each rank as close together as their dependencies allow, two cells
  // apart, starting from the last F1 of rank 0; the weight gradients of that part into the empty cells and to the end.
  bool redrain(std::uint32_t held) {
    const std::uint32_t upper = std::min((held + 1) / 2, wanted_), lower = std::min(held - upper, wanted_);
    const std::size_t old_end = grid_.length();
    std::int64_t start = -1;
    for (std::uint32_t rank = 0; rank < p_; ++rank) {
      Kind* const line = grid_.line(rank);
      std::uint32_t taken1 = 0, taken0 = 0, weights1 = 0, weights0 = 0;
      std::int64_t last = -1;
      for (std::size_t cell = old_end; cell-- > 0;) {
        Kind& kind = line[cell];
        if (kind == kF1 && last < 0) last = std::int64_t(cell);
        if (kind == kI1 && taken1 < std::min(rank + 1, lower)) kind = kNone, ++taken1;
        if (kind == kI0 && taken0 < upper) kind = kNone, ++taken0;
      }
      for (std::size_t cell = old_end; cell-- > 0;) {
        if (weights1 >= taken1 && weights0 >= taken0 && weights1 + weights0 >= held) break;
        Kind& kind = line[cell];
        if (kind == kW1) kind = kNone, ++weights1;
        if (kind == kW0) kind = kNone, ++weights0;
      }
      if (rank == 0) start = last;
      for (std::int64_t n = 0; n < taken0; ++n)
        if (!put(rank, start - rank + 2 * std::int64_t(p_) - 2 * n, kI0)) return false;
      for (std::int64_t n = 0; n < taken1; ++n)
        if (!put(rank, start + 1 + rank - 2 * n, kI1)) return false;
    }
    return settle_weights(grid_) && squeeze(grid_, wanted_);
  }

  // Cell by cell, every empty one takes the first later action of its rank that may go there with all others staying
  // where they are and the rank holding no more than `most`.
  void fill_holes(std::int32_t most) {
    const std::size_t end = grid_.length();
    Placed placed(p_, wanted_);
    std::vector<std::int32_t> held(p_);
    const auto pull = [&](std::size_t rank, std::size_t cell) {
      Kind* const line = grid_.line(rank);
      unsigned open = (1u << kKinds) - 1;  // kinds that may go there, for all that is known
      std::int32_t change = 0, rise = 0;   // of what the rank holds between the empty cell and the one looked at
      for (std::size_t from = cell + 1; from < end && open != 0; ++from) {
        const Kind kind = line[from];
        if (open >> kind & 1u) {
          if ((kind > kF1 || held[rank] + rise < most) && placed.ready(rank, kind) <= cell)
            return std::swap(line[cell], line[from]);
          open &= ~(1u << kind);
        }
        change += change_of(kind);
        if (change > rise) rise = change;
      }
    };
    for (std::size_t cell = 0; cell < end; ++cell)
      for (std::size_t rank = 0; rank < p_; ++rank) {
        Kind& kind = grid_.line(rank)[cell];
        if (kind == kNone) pull(rank, cell);
        if (kind == kNone) continue;
        placed.put(rank, kind, cell);
        held[rank] += change_of(kind);
      }
  }

  // Weight gradients in the order of their input gradients. False unless every kind is there as often as it should be.
  bool relabel_weights() {
    for (std::size_t rank = 0; rank < p_; ++rank) {
      Kind* const line = grid_.line(rank);
      Counts count{};
      std::vector<Kind> waiting;
      std::size_t next = 0;
      for (std::size_t cell = 0; cell < grid_.length(); ++cell) {
        Kind& kind = line[cell];
        if (kind == kNone) continue;
        ++count[kind];
        if (is_gradient(kind)) waiting.push_back(weight_of(kind));
        if (!frees(kind)) continue;
        if (next == waiting.size()) return false;
        kind = waiting[next++];
      }
      for (const std::uint32_t n : count)
        if (n != wanted_) return false;
    }
    return true;
  }

  std::uint32_t p_, wanted_, limit_;
  std::uint32_t m_;  // micro-batches that are repeated: at least 2p, the fill being written for a full pipeline
  Grid grid_;
};

// Times of grids. The replay of any order would take as long as making them, and most are given up before their end.
class Clock {
 public:
  explicit Clock(const Problem& problem) : problem_(problem), time_(problem.ranks), work_(problem.ranks) {
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank)
      for (std::uint8_t kind = 0; kind < kKinds; ++kind) {
        time_[rank][kind] = problem.time(action(problem, rank, Kind(kind), 0));
        work_[rank] += std::int64_t(problem.microbatches) * time_[rank][kind];
      }
  }
  Time least() const { return *std::max_element(work_.begin(), work_.end()); }

  // The cost of the grid, or nothing once it cannot be below `best`.
  std::optional<Time> cost(const Grid& grid, std::optional<Time> best) const {
    const std::size_t p = problem_.ranks;
    std::vector<Time> free(p), cost = work_, end(p * problem_.microbatches * kKinds);
    std::vector<Counts> count(p);
    for (std::size_t cell = 0; cell < grid.length(); ++cell)
      for (std::size_t rank = 0; rank < p; ++rank) {
        const Kind kind = grid.line(rank)[cell];
        if (kind == kNone) continue;
        const std::size_t at = (std::size_t(count[rank][kind]++) * kKinds + kind) * p + rank;
        const bool down = downwards(kind), first_chunk = kind == kF0 || kind == kI0;
        Time start = free[rank];
        if (!frees(kind) && (down ? rank > 0 : rank + 1 < p)) {
          const std::size_t hop = down ? rank - 1 : rank;  // chunk 1 of ranks r and r + 1: stages 2p-1-r and 2p-2-r
          start = std::max(start, end[down ? at - 1 : at + 1] + problem_.transfer[first_chunk ? hop : 2 * p - 2 - hop]);
        }
        // Waiting before its first action costs a rank nothing.
        if (at != rank) cost[rank] += start - free[rank];
        if (best && cost[rank] >= *best) return std::nullopt;
        end[at] = free[rank] = start + time_[rank][kind];
      }
    return *std::max_element(cost.begin(), cost.end());
  }

 private:
  const Problem& problem_;
  std::vector<std::array<Time, kKinds>> time_;
  std::vector<Time> work_;  // of each rank
};

// The limit as a number of chunk activations, each held until its weight gradient: what blocks are counted in.
std::uint32_t chunk_limit(const Problem& problem) {
  const std::uint32_t most = 2 * problem.ranks;
  if (!problem.memory_limit) return most;
  double chunk = 0;
  for (std::uint32_t s = 0; s < problem.stages(); ++s)
    chunk = std::max({chunk, problem.activation[s], problem.weight_hold[s]});
  std::uint32_t limit = most;
  while (limit > 0 && limit * chunk > *problem.memory_limit) --limit;
  return limit;
}

void check_limit(const Problem& problem) {
  if (!problem.memory_limit) return;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    const std::uint32_t chunk1 = 2 * problem.ranks - 1 - rank;
    const double needed = std::max({problem.activation[rank] + problem.activation[chunk1],
                                    problem.activation[rank] + problem.weight_hold[chunk1], problem.weight_hold[rank]});
    if (needed > *problem.memory_limit)
      throw UserError(
          fmt::format("schedule v-adaptive: a single micro-batch takes {} on rank {}, more than memory_limit {}; set "
                      "memory_limit to {} or more",
                      needed, rank, *problem.memory_limit, needed));
  }
}

// The cheapest order that a block makes; where no block fits, each micro-batch through the whole V alone.
Planned plan(const Problem& problem) {
  const std::uint32_t p = problem.ranks;
  Builder builder(p, problem.microbatches, chunk_limit(problem));
  const Clock clock(problem);
  std::map<std::vector<Block>, Builder::Result> seen;  // different rows below a first one often come to the same
  std::optional<Grid> best;
  std::optional<Time> cost;
  for (std::uint8_t n = 0; n < 125; ++n) {  // cells 1 to 5 for F1, I1 and I0 of rank 0, also those that rows() refuses
    const Block first{0, std::uint8_t(1 + n / 25), std::uint8_t(1 + n / 5 % 5), std::uint8_t(1 + n % 5)};
    for (std::uint32_t x_upper = 1; x_upper < kPeriod; ++x_upper)
      for (std::uint32_t x_lower = 1; x_lower <= x_upper; ++x_lower) {
        // With one x for all ranks, or no second rank, the number of upper ranks does not matter.
        const std::uint32_t most = x_lower == x_upper ? 1 : p - 1;
        for (std::uint32_t upper = 1; upper <= most; ++upper) {
          const auto blocks = rows(first, p, upper, x_upper, x_lower);
          if (!blocks) continue;
          const auto [at, unseen] = seen.try_emplace(*blocks);
          if (unseen) at->second = builder.build(*blocks);
          if (at->second == Builder::over_limit) break;  // more upper ranks take more
          if (!unseen || at->second != Builder::built) continue;
          const auto cheaper = clock.cost(builder.grid(), cost);
          if (!cheaper) continue;
          cost = cheaper;
          best = builder.grid();
          if (*cost == clock.least()) return program(problem, *best);
        }
      }
  }
  if (best) return program(problem, *best);
  Grid alone(p, problem.microbatches);
  alone.set_length(std::size_t(kPeriod) * problem.microbatches);
  constexpr std::array kAlone{kF0, kF1, kI1, kW1, kI0, kW0};
  for (std::uint32_t rank = 0; rank < p; ++rank)
    for (std::size_t cell = 0; cell < alone.length(); ++cell) alone.line(rank)[cell] = kAlone[cell % kPeriod];
  return program(problem, alone);
}

}  // namespace

void register_v_adaptive(Registry& registry) {
  registry.add({.name = "v-adaptive",
                .summary = "Two chunks per rank in a V, the cheapest building block within the memory limit, at most p "
                           "micro-batches held (arXiv 2405.15362, appendix A).",
                .placement = Placement::vee,
                .min_chunks = 2,
                .max_chunks = 2,
                .splits_backward = true,
                .check = check_limit,
                .plan = plan});
}

}  // namespace rehearsal::schedule
