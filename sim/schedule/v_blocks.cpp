#include "schedule/v_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rehearsal::schedule::v_blocks {
namespace {

using Counts = std::array<std::uint32_t, kKinds>;

// Change of the number of activations held by an action.
std::int32_t change_of(Kind kind) {
  constexpr std::int32_t kChange[kKinds + 1] = {1, 1, 0, 0, -1, -1, 0};
  return kChange[kind];
}

bool frees(Kind kind) { return kind == kW1 || kind == kW0; }
bool downwards(Kind kind) { return kind == kF0 || kind == kI1; }  // from rank to rank + 1

}  // namespace

void put_weights(Block& block) {
  unsigned taken = 0;
  for (const Kind kind : {kF0, kF1, kI1, kI0}) taken |= 1u << block[kind];
  for (const auto& [gradient, weight] : {std::pair{kI1, kW1}, std::pair{kI0, kW0}}) {
    std::uint32_t cell = block[gradient];
    while (taken >> cell & 1u) cell = (cell + 1) % kPeriod;
    block[weight] = std::uint8_t(cell);
    taken |= 1u << cell;
  }
}

void Grid::clear() {
  static_assert(sizeof(Kind) == 1);
  std::memset(cells_.data(), kNone, cells_.size());
  length_ = 0;
}

// A block is at most 4p steps of kPeriod cells high; rearranging adds at most what a rank may hold, 2p, two cells each.
Builder::Builder(std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t limit)
    : p_(ranks),
      wanted_(microbatches),
      limit_(limit),
      m_(std::max(microbatches, 2 * ranks)),
      grid_(ranks, std::size_t(kPeriod) * (std::size_t(m_) + 5 * ranks + 2)),
      next_(ranks, grid_.widest()) {}

std::uint32_t Builder::peak_of(std::size_t rank) const {
  const Kind* const line = grid_.line(rank);
  std::int32_t now = 0, most = 0;
  for (std::size_t cell = 0, end = grid_.length(); cell < end; ++cell) {
    now += change_of(line[cell]);
    if (now > most) most = now;
  }
  return std::uint32_t(most);
}

std::uint32_t Builder::peak() const {
  std::uint32_t most = 0;
  for (std::size_t rank = 0; rank < p_; ++rank) most = std::max(most, peak_of(rank));
  return most;
}

// Writes into an empty cell; false if it is taken (the block is then given up) or outside.
bool Builder::put(std::size_t rank, std::int64_t cell, Kind kind) {
  if (cell < 0 || std::size_t(cell) >= grid_.widest()) return false;
  Kind& at = grid_.line(rank)[cell];
  if (at != kNone) return false;
  at = kind;
  grid_.set_length(std::max(grid_.length(), std::size_t(cell) + 1));
  return true;
}

// Micro-batch 0 takes the first cells of its kinds one after the other, down the V, up, and back; the others follow
// kPeriod cells apart. Returns the peak, and leaves the grid as it is if that is too much.
std::uint32_t Builder::repeat(const std::vector<Block>& blocks) {
  std::vector<Counts> first(p_);
  std::uint32_t cell = 0, end = 0;
  const auto next = [](std::uint32_t from, std::uint8_t wanted) {
    return from + (wanted + kPeriod - from % kPeriod) % kPeriod;
  };
  for (const Kind kind : {kF0, kF1, kI1, kI0})
    for (std::uint32_t step = 0; step < p_; ++step) {
      const std::uint32_t rank = downwards(kind) ? step : p_ - 1 - step;
      first[rank][kind] = next(cell, blocks[rank][kind]);
      cell = first[rank][kind] + 1;
      end = std::max(end, cell);
      if (kind != kI1 && kind != kI0) continue;
      const Kind weight = kind == kI1 ? kW1 : kW0;
      first[rank][weight] = next(cell, blocks[rank][weight]);
      end = std::max(end, first[rank][weight] + 1);
    }
  // A rank holds what it has forwarded less the weight gradients it has done. The peak is in the cell of the last F0,
  // up to which nothing ends, or in that of some F1.
  std::uint32_t most = 0;
  for (std::uint32_t rank = 0; rank < p_; ++rank) {
    const auto held = [&](std::uint32_t now) {
      const auto begun = [&](Kind kind) {
        return now < first[rank][kind] ? 0 : std::min(m_, (now - first[rank][kind]) / kPeriod + 1);
      };
      return begun(kF0) + begun(kF1) - begun(kW1) - begun(kW0);
    };
    most = std::max(most, held(first[rank][kF0] + kPeriod * (m_ - 1)));
    for (std::uint32_t k = 0; k < m_; ++k) most = std::max(most, held(first[rank][kF1] + kPeriod * k));
  }
  if (most > 2 * p_ || (m_ == wanted_ && most > limit_)) return most;

  grid_.clear();
  grid_.set_length(end + std::size_t(kPeriod) * (m_ - 1));
  for (std::uint32_t rank = 0; rank < p_; ++rank)
    for (std::uint8_t kind = 0; kind < kKinds; ++kind) {
      Kind* at = grid_.line(rank) + first[rank][kind];
      for (std::uint32_t k = 0; k < m_; ++k, at += kPeriod) *at = Kind(kind);
    }
  return most;
}

// Moves every action to the earliest cell that keeps the order of its rank. False if an action precedes its input.
bool Builder::squeeze(std::uint32_t m) {
  next_.clear();
  std::uint32_t* placed[4];
  for (const Kind kind : {kF0, kF1, kI1, kI0}) {
    placed_[kind].assign(std::size_t(m) * p_, 0);
    placed[kind] = placed_[kind].data();
  }
  ranks_.assign(p_, {});
  PerRank* const ranks = ranks_.data();
  const std::size_t widest = grid_.widest(), end = grid_.length(), p = p_;
  Kind* const to = next_.line(0);
  const auto move = [=](std::size_t rank, Kind kind) {
    const std::uint32_t k = ranks[rank].count[kind]++;
    if (k >= m) return false;
    std::size_t cell = ranks[rank].end;
    if (kind <= kI0) {
      const bool down = kind == kF0 || kind == kI1;
      std::uint32_t* const at = placed[kind] + k * p + rank;
      if (down ? rank > 0 : rank + 1 < p) {
        const std::uint32_t ready = *(down ? at - 1 : at + 1);
        if (ready == 0) return false;
        if (ready > cell) cell = ready;
      } else if (kind != kF0 && placed[kind - 1u][k * p + rank] == 0) {
        return false;  // the last rank turns from F0 to F1 and from I1 to I0, rank 0 from F1 to I1
      }
      *at = std::uint32_t(cell) + 1;
    }
    if (cell >= widest) return false;
    to[rank * widest + cell] = kind;
    ranks[rank].end = std::uint32_t(cell) + 1;
    return true;
  };
  // Within a cell, downward actions are visited first, rank by rank, then upward ones.
  constexpr unsigned kDown = 1u << kF0 | 1u << kI1 | 1u << kW1, kUp = 1u << kF1 | 1u << kI0 | 1u << kW0;
  for (std::size_t cell = 0; cell < end; ++cell) {
    const Kind* const column = grid_.line(0) + cell;
    unsigned kinds = 0;
    for (std::size_t rank = 0; rank < p; ++rank) {
      const Kind kind = column[rank * widest];
      kinds |= 1u << kind;
      if ((kDown >> kind & 1u) && !move(rank, kind)) return false;
    }
    if ((kinds & kUp) == 0) continue;
    for (std::size_t rank = p; rank-- > 0;) {
      const Kind kind = column[rank * widest];
      if ((kUp >> kind & 1u) && !move(rank, kind)) return false;
    }
  }
  std::uint32_t longest = 0;
  for (std::size_t rank = 0; rank < p; ++rank) longest = std::max(longest, ranks[rank].end);
  next_.set_length(longest);
  std::swap(grid_, next_);
  return true;
}

// Rebuilds the fill, up to the first I0 of each rank: as many F0 and F1 as the peak allows (F1 no more than the rank's
// distance from rank 0), then I1, W1 and a forward in turn.
bool Builder::refill(std::uint32_t most) {
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

// Removes surplus micro-batches.
void Builder::keep_first() {
  for (std::size_t rank = 0; rank < p_; ++rank) {
    Kind* const line = grid_.line(rank);
    Counts count{};
    for (std::size_t cell = 0; cell < grid_.length(); ++cell)
      if (line[cell] != kNone && count[line[cell]]++ >= wanted_) line[cell] = kNone;
  }
}

// With few micro-batches the fill does not use all memory: its weight gradients are moved to the end.
void Builder::put_off_weights(std::uint32_t limit) {
  const std::size_t end = grid_.length();
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < p_; ++rank) {
    Kind* const line = grid_.line(rank);
    const std::uint32_t own = peak_of(rank);
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

// Rebuilds the drain: the last I1 and I0 of each rank as close together as their dependencies allow, two cells apart,
// starting from the last F1 of rank 0; the weight gradients of that part go into the empty cells and to the end.
bool Builder::redrain(std::uint32_t held) {
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
  const std::size_t end = grid_.length();
  std::size_t longest = end;
  for (std::size_t rank = 0; rank < p_; ++rank) {
    Kind* const line = grid_.line(rank);
    std::int32_t waiting1 = 0, waiting0 = 0;
    std::size_t settled = end;  // up to the last weight gradient that has kept its cell
    while (settled > 0 && !frees(line[settled - 1])) --settled;
    for (std::size_t cell = 0; cell < end + 2 * std::size_t(wanted_); ++cell) {
      if (cell >= end && waiting1 + waiting0 <= 0) break;
      if (cell >= grid_.widest()) return false;
      Kind& kind = line[cell];
      if (kind == kI1) ++waiting1;
      if (kind == kI0) ++waiting0;
      if (kind == kW1) --waiting1;
      if (kind == kW0) --waiting0;
      if (kind != kNone || cell < settled) continue;
      if (waiting1 > 0)
        kind = kW1, --waiting1;
      else if (waiting0 > 0)
        kind = kW0, --waiting0;
      if (kind != kNone) longest = std::max(longest, cell + 1);
    }
  }
  grid_.set_length(longest);
  return squeeze(wanted_);
}

// Cell by cell, each empty cell takes the first later action of its rank that may move there while all others stay in
// place and the rank holds no more than `most`.
void Builder::fill_holes(std::int32_t most) {
  const std::size_t widest = grid_.widest(), end = grid_.length(), p = p_;
  std::uint32_t* placed[4];
  for (const Kind kind : {kF0, kF1, kI1, kI0}) {
    placed_[kind].assign(std::size_t(wanted_) * p, 0);
    placed[kind] = placed_[kind].data();
  }
  ranks_.assign(p, {});
  PerRank* const ranks = ranks_.data();
  for (std::size_t rank = 0; rank < p; ++rank) {
    const Kind* const line = grid_.line(rank);
    for (std::size_t cell = end; cell-- > 0 && ranks[rank].end == 0;)
      if (line[cell] != kNone) ranks[rank].end = std::uint32_t(cell);
  }

  const auto ready = [=](const PerRank& rank, std::size_t at, unsigned kind, std::size_t cell) {
    const std::size_t k = rank.count[kind];
    if (kind >= kW1) return rank.count[kind == kW1 ? kI1 : kI0] > k;
    const bool down = kind == kF0 || kind == kI1;
    if (down ? at == 0 : at + 1 == p) return kind == kF0 || rank.count[kind - 1] > k;
    const std::uint32_t from = placed[kind][k * p + (down ? at - 1 : at + 1)];
    return from != 0 && from <= cell;
  };
  const auto pull = [&](std::size_t at, Kind* to, std::size_t cell) {
    const PerRank& rank = ranks[at];
    unsigned open = 0;  // kinds that may go there, if they come
    for (unsigned kind = rank.held < most ? kF0 : kI1; kind < kKinds; ++kind)
      if (rank.count[kind] < wanted_ && ready(rank, at, kind, cell)) open |= 1u << kind;
    std::int32_t change = 0, rise = 0;  // of what the rank holds between the empty cell and the one looked at
    for (Kind *from = to + 1, *last = to + (rank.end - cell); from <= last && open != 0; ++from) {
      const Kind kind = *from;
      if (kind == kNone) continue;
      if (open >> kind & 1u) {
        if (kind > kF1 || rank.held + rise < most) return std::swap(*to, *from);
        open &= ~(1u << kind);
      }
      change += change_of(kind);
      if (change > rise) rise = change;
    }
  };

  for (std::size_t cell = 0; cell < end; ++cell) {
    Kind* const column = grid_.line(0) + cell;
    for (std::size_t rank = 0; rank < p; ++rank) {
      Kind& kind = column[rank * widest];
      if (kind == kNone) {
        if (cell < ranks[rank].end) pull(rank, &kind, cell);
        if (kind == kNone) continue;
      }
      const std::uint32_t k = ranks[rank].count[kind]++;
      if (kind <= kI0) placed[kind][k * p + rank] = std::uint32_t(cell) + 1;
      ranks[rank].held += change_of(kind);
    }
  }
}

// Weight gradients in the order of their input gradients. False unless every kind occurs as often as it should.
bool Builder::relabel_weights() {
  for (std::size_t rank = 0; rank < p_; ++rank) {
    Kind* const line = grid_.line(rank);
    Counts count{};
    waiting_.clear();
    std::size_t next = 0;
    for (std::size_t cell = 0; cell < grid_.length(); ++cell) {
      Kind& kind = line[cell];
      if (kind == kNone) continue;
      ++count[kind];
      if (kind == kI1) waiting_.push_back(kW1);
      if (kind == kI0) waiting_.push_back(kW0);
      if (!frees(kind)) continue;
      if (next == waiting_.size()) return false;
      kind = waiting_[next++];
    }
    for (const std::uint32_t n : count)
      if (n != wanted_) return false;
  }
  return true;
}

Builder::Result Builder::build(const std::vector<Block>& blocks) {
  std::uint32_t allowed = repeat(blocks);
  if (allowed > 2 * p_ || (m_ == wanted_ && allowed > limit_)) return over_limit;
  if (!refill(allowed) || !squeeze(m_)) return impossible;
  std::uint32_t held = peak();
  if (held > allowed) return impossible;
  if (wanted_ < m_) {
    keep_first();
    if (wanted_ <= p_ && 2 * wanted_ <= limit_) put_off_weights(held);
    if (!squeeze(wanted_)) return impossible;
    held = allowed = peak();
    if (allowed > limit_) return over_limit;
  }
  if (!redrain(held)) return impossible;
  held = peak();
  fill_holes(std::int32_t(held));
  return relabel_weights() && (held <= allowed || peak() <= allowed) ? built : impossible;
}

}  // namespace rehearsal::schedule::v_blocks
