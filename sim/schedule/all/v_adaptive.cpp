// V-schedule for any memory limit (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, appendix A; the
// search of sail-sg's v_auto_schedule): tries building blocks, makes an order of each (v_blocks.hpp) and keeps the
// cheapest within the limit. A block's rows follow from the first one: F0 and I1 of the next rank come x cells later,
// F1 and I0 one cell earlier, with one x for the upper ranks and a smaller or equal one for the others.
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

Action action(const Problem& problem, std::uint32_t rank, Kind kind, std::uint32_t microbatch) {
  constexpr std::array<Op, kKinds> kOp{Op::forward,        Op::forward,         Op::input_gradient,
                                       Op::input_gradient, Op::weight_gradient, Op::weight_gradient};
  const bool first_chunk = kind == kF0 || kind == kI0 || kind == kW0;
  return {microbatch, static_cast<std::uint16_t>(stage_of(Placement::vee, problem, rank, first_chunk ? 0 : 1)),
          kOp[kind]};
}

// Gives times to a grid: every action is in a later cell than the actions that it needs.
class Clock {
 public:
  explicit Clock(const Problem& problem) : p_(problem.ranks), m_(problem.microbatches), time_(p_), work_(p_) {
    for (std::uint32_t rank = 0; rank < p_; ++rank)
      for (std::uint8_t kind = 0; kind < kKinds; ++kind) {
        time_[rank][kind] = problem.time(action(problem, rank, Kind(kind), 0));
        work_[rank] += std::int64_t(m_) * time_[rank][kind];
      }
    // Chunk 0 of ranks r and r+1 are stages r and r+1, chunk 1 stages 2p-1-r and 2p-2-r.
    for (std::uint32_t rank = 0; rank + 1 < p_; ++rank)
      transfer_.push_back({problem.transfer[rank], problem.transfer[2 * p_ - 2 - rank]});
  }

  Time least() const { return *std::max_element(work_.begin(), work_.end()); }

  // The cost of the grid, or nothing once it cannot be below `best`.
  std::optional<Time> cost(const Grid& grid, std::optional<Time> best) {
    free_.assign(p_, Time());
    cost_ = work_;
    count_.assign(p_, {});
    for (auto& of_kind : end_) of_kind.assign(std::size_t(m_) * p_, Time());
    for (std::size_t cell = 0; cell < grid.length(); ++cell)
      for (std::uint32_t rank = 0; rank < p_; ++rank) {
        const Kind kind = grid.line(rank)[cell];
        if (kind == kNone) continue;
        const std::size_t at = std::size_t(count_[rank][kind]++) * p_ + rank;
        const bool down = kind == kF0 || kind == kI1, weight = kind > kI0;
        Time start = free_[rank];
        if (!weight && (down ? rank > 0 : rank + 1 < p_)) {
          const auto& [chunk0, chunk1] = transfer_[down ? rank - 1 : rank];
          start = std::max(start, end_[kind][down ? at - 1 : at + 1] + (kind == kF0 || kind == kI0 ? chunk0 : chunk1));
        }
        // Waiting before its first action costs a rank nothing.
        if (at != rank || kind != kF0) cost_[rank] += start - free_[rank];
        if (best && cost_[rank] >= *best) return std::nullopt;
        free_[rank] = start + time_[rank][kind];
        if (!weight) end_[kind][at] = free_[rank];
      }
    return *std::max_element(cost_.begin(), cost_.end());
  }

 private:
  std::uint32_t p_, m_;
  std::vector<std::array<Time, kKinds>> time_;
  std::vector<Time> work_;                     // of each rank
  std::vector<std::array<Time, 2>> transfer_;  // between rank and rank + 1, of chunk 0 and 1
  std::vector<Time> free_, cost_;              // of each rank: end of its last action, work and waits so far
  std::vector<std::array<std::uint32_t, kKinds>> count_;
  std::array<std::vector<Time>, 4> end_;  // of F and I, per (micro-batch, rank)
};

// Rows of a block from the first one; nothing if two actions of a rank want one cell.
std::optional<std::vector<Block>> rows(const Block& first, std::uint32_t p, std::uint32_t upper, std::uint32_t x_upper,
                                       std::uint32_t x_lower) {
  std::vector<Block> blocks{first};
  for (std::uint32_t rank = 1; rank < p; ++rank) {
    const std::uint32_t x = rank <= upper ? x_upper : x_lower;
    Block block = blocks.back();
    unsigned taken = 0;
    for (const Kind kind : {kF0, kF1, kI1, kI0}) {
      block[kind] = std::uint8_t((block[kind] + (kind == kF0 || kind == kI1 ? x : kPeriod - 1)) % kPeriod);
      if (taken >> block[kind] & 1u) return std::nullopt;
      taken |= 1u << block[kind];
    }
    put_weights(block);
    blocks.push_back(block);
  }
  return blocks;
}

std::vector<Block> first_rows() {
  std::vector<Block> all;
  for (std::uint8_t f1 = 1; f1 < kPeriod; ++f1)
    for (std::uint8_t i1 = 1; i1 < kPeriod; ++i1)
      for (std::uint8_t i0 = 1; i0 < kPeriod; ++i0) {
        if (f1 == i1 || f1 == i0 || i1 == i0) continue;
        all.push_back({0, f1, i1, i0, 0, 0});
        put_weights(all.back());
      }
  return all;
}

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

std::optional<Grid> search(const Problem& problem) {
  const std::uint32_t p = problem.ranks;
  Builder builder(p, problem.microbatches, chunk_limit(problem));
  Clock clock(problem);
  std::map<std::vector<Block>, Builder::Result> seen;  // different rows below a first one often give the same
  std::optional<Grid> best;
  std::optional<Time> cost;
  for (const Block& first : first_rows())
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
          const std::optional<Time> cheaper = clock.cost(builder.grid(), cost);
          if (!cheaper) continue;
          cost = cheaper;
          best = builder.grid();
          if (*cost == clock.least()) return best;
        }
      }
  return best;
}

// If no block fits: each micro-batch passes the whole V alone.
constexpr std::array<Kind, kKinds> kAlone{kF0, kF1, kI1, kW1, kI0, kW0};

void check_limit(const Problem& problem) {
  if (!problem.memory_limit) return;
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    const std::uint32_t chunk1 = 2 * problem.ranks - 1 - rank;
    const double needed = std::max({problem.activation[rank] + problem.activation[chunk1],
                                    problem.activation[rank] + problem.weight_hold[chunk1], problem.weight_hold[rank]});
    if (needed > *problem.memory_limit)
      throw UserError(fmt::format(
          "schedule v-adaptive: one micro-batch alone takes {} on rank {}, more than memory_limit {}; set memory_limit "
          "to {} or more",
          needed, rank, *problem.memory_limit, needed));
  }
}

Planned plan(const Problem& problem) {
  const std::optional<Grid> grid = search(problem);
  Planned plan;
  plan.ranks.resize(problem.ranks);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    std::vector<Action>& program = plan.ranks[rank];
    if (!grid)
      for (std::uint32_t k = 0; k < problem.microbatches; ++k)
        for (const Kind kind : kAlone) program.push_back(action(problem, rank, kind, k));
    else {
      std::array<std::uint32_t, kKinds> next{};
      for (std::size_t cell = 0; cell < grid->length(); ++cell) {
        const Kind kind = grid->line(rank)[cell];
        if (kind != kNone) program.push_back(action(problem, rank, kind, next[kind]++));
      }
    }
  }
  return plan;
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
