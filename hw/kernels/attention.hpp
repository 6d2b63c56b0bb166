// Attention after FlashAttention-2 (Dao, arXiv 2307.08691, section 3.1): scores stay in registers and shared memory,
// one tile at a time, and the softmax is rescaled as the running maximum grows.
//
// A row of qkv holds [Q | K | V]: heads x depth columns of queries, and kv_heads x depth each of keys and values,
// shared by heads / kv_heads neighbouring query heads; rows are batch x positions; out[T, heads depth]; lse[batch,
// heads, positions] in fp32. T is the storage type of qkv and out, all arithmetic is fp32 (tiles.hpp). With a context
// group each rank's keys and values are a separate block [rows, 2 kv_heads depth]. A rank processes one block after
// another and merges the result into that of the earlier ones (Ring Attention, Liu et al., arXiv 2310.01889): lse =
// log(exp(lse) + exp(lse')), o = o exp(lse_before - lse) + o' exp(lse' - lse). Those sums are fp32.
//   s_ij = q_i k_j / sqrt(depth),  lse_i = log sum_j exp(s_ij),  p_ij = exp(s_ij - lse_i),  o_i = sum_j p_ij v_j
// The code keeps s_ij / ln 2, because a GPU has an instruction for 2^x.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include "base/kernels.hpp"
#include "kernels/cut.hpp"
#include "kernels/tiles.hpp"

namespace rehearsal::kernels {

struct Heads {
  std::int64_t batch = 0, heads = 0, positions = 0, depth = 0;
  Sight sight{Mask::causal};
  std::int64_t kv_heads = 0;                // divides `heads`
  bool apart = false;                       // keys and values are a separate block
  Cut own{}, from{};                        // of the rank that has the queries, and of the rank that has the keys
  const std::int32_t* documents = nullptr;  // where they begin, by position of whole sequences; null: one document each

  REHEARSAL_BOTH std::int64_t row() const { return heads * depth; }
  REHEARSAL_BOTH std::int64_t qkv_row() const { return (heads + 2 * kv_heads) * depth; }
  REHEARSAL_BOTH std::int64_t shared_by() const { return heads / kv_heads; }
  // Where one head of one sequence begins. `sequence_head` = sequence * heads + head for queries, and sequence *
  // kv_heads + head for keys and values.
  REHEARSAL_BOTH std::int64_t out(std::int64_t sequence_head) const {
    return sequence_head / heads * positions * row() + sequence_head % heads * depth;
  }
  REHEARSAL_BOTH std::int64_t queries(std::int64_t sequence_head) const {
    return sequence_head / heads * positions * qkv_row() + sequence_head % heads * depth;
  }
  REHEARSAL_BOTH std::int64_t kv_row() const { return apart ? 2 * kv_heads * depth : qkv_row(); }
  REHEARSAL_BOTH std::int64_t keys(std::int64_t kv_head) const {
    return kv_head / kv_heads * positions * kv_row() + (apart ? 0 : row()) + kv_head % kv_heads * depth;
  }
  REHEARSAL_BOTH std::int64_t values(std::int64_t kv_head) const { return keys(kv_head) + kv_heads * depth; }
  // The key head that a query head reads; heads are numbered consecutively across sequences.
  REHEARSAL_BOTH std::int64_t kv_of(std::int64_t sequence_head) const { return sequence_head / shared_by(); }
  REHEARSAL_BOTH std::int64_t lse(std::int64_t sequence_head) const { return sequence_head * positions; }
  // Query i of a sequence attends to the keys from unseen(sequence, i) to seen(i); both ascend with i. A query beyond
  // the last position, in the last tile, counts as the last one.
  REHEARSAL_DEVICE std::int64_t seen(std::int64_t i) const {
    if (sight.mask == Mask::none) return positions;
    return from.up_to(position(i), positions);
  }
  REHEARSAL_DEVICE std::int64_t unseen(std::int64_t sequence, std::int64_t i) const {
    if (!sight.limited()) return 0;
    const std::int64_t at = position(i), document = documents ? documents[sequence * positions * own.ranks + at] : 0;
    return from.up_to(sight.first(at, document) - 1, positions);
  }
  // As seen(), but 0 for a query beyond the last position.
  REHEARSAL_DEVICE std::int64_t within(std::int64_t i) const { return i < positions ? seen(i) : 0; }
  // Keys as columns of a tile that begins with `first`: 32 bits, for these are held in registers.
  static REHEARSAL_DEVICE int column(std::int64_t key, std::int64_t first) {
    constexpr std::int64_t kBeyond = 1 << 20;
    const std::int64_t at = key - first;
    return static_cast<int>(at < 0 ? 0 : at < kBeyond ? at : kBeyond);
  }

 private:
  REHEARSAL_DEVICE std::int64_t position(std::int64_t i) const {
    return own.position(i < positions ? i : positions - 1, positions);
  }
};

inline constexpr float kLog2e = std::numbers::log2e_v<float>, kLn2 = std::numbers::ln2_v<float>;

// A block serves one tile of queries of one head of one sequence. kDepth: depth, rounded up to a multiple of 32. kPart:
// the keys are those of one rank, and `out` is a running sum.
template <class T, int kDepth, bool kPart = false>
struct Attention {
  static constexpr int kThreads = kSquare, kTile = 64, kR = kTile / kSide, kColumns = kDepth / kSide;
  static constexpr int kResident = kDepth <= 128 ? 2 : 1;  // limited by shared memory (80 KiB at depth 128)
  struct Shared {
    Tile<kTile, kDepth> queries, other;  // other: keys, then values
    Tile<kTile, kTile> weights;
  };
  Heads shape;
  const T *qkv, *block;  // block: keys and values
  std::conditional_t<kPart, float, T>* out;
  float* lse;
  float scale;  // log2(e) / sqrt(depth)
  bool wide;
  bool first_part = true;  // there is no earlier result to merge with

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    // The last queries of a causal head attend to the most keys: they go first, so that no long block runs at the end.
    const std::int64_t all_heads = shape.batch * shape.heads, head = team.block() % all_heads;
    const std::int64_t tile = (shape.positions - 1) / kTile - team.block() / all_heads;
    const std::int64_t first = tile * kTile, end = shape.seen(first + kTile - 1), kv = shape.kv_of(head),
                       sequence = head / shape.heads;
    Local<Team, Sums<kR, kColumns>> result(team);
    Local<Team, Sums<kR, kR>> scores(team);
    Local<Team, Floats<kR>> largest(team), sum(team), most(team);
    team.each([&](int thread) {
      fill(thread, team.shared.queries, rows(qkv + shape.queries(head), shape.qkv_row(), first));
      result(thread).clear();
      REHEARSAL_UNROLL
      for (int r = 0; r < kR; ++r) largest(thread)[r] = -std::numeric_limits<float>::infinity(), sum(thread)[r] = 0;
    });
    for (std::int64_t key = shape.unseen(sequence, first) / kTile * kTile; key < end; key += kTile) {
      team.each(
          [&](int thread) { fill(thread, team.shared.other, rows(block + shape.keys(kv), shape.kv_row(), key)); });
      team.own([&](int thread) {
        auto& s = scores(thread);
        rows_times_rows(thread, team.shared.queries, team.shared.other, s);
        REHEARSAL_UNROLL
        for (int r = 0; r < kR; ++r) {
          float top = -std::numeric_limits<float>::infinity();
          const std::int64_t i = first + thread / kSide + r * kSide;
          const int seen = Heads::column(shape.seen(i), key), unseen = Heads::column(shape.unseen(sequence, i), key);
          REHEARSAL_UNROLL
          for (int c = 0; c < kR; ++c) {
            const int j = thread % kSide + c * kSide;
            s.v[r][c] = unseen <= j && j < seen ? s.v[r][c] * scale : -std::numeric_limits<float>::infinity();
            top = Largest{}(top, s.v[r][c]);
          }
          most(thread)[r] = top;
        }
      });
      team.template largest_of<kSide>(most);
      team.each([&](int thread) {
        auto& s = scores(thread);
        REHEARSAL_UNROLL
        for (int r = 0; r < kR; ++r) {
          const float most_yet = Largest{}(largest(thread)[r], most(thread)[r]);
          // A query may attend to none of another rank's keys, or of the first tiles of its window.
          const float top = most_yet == -std::numeric_limits<float>::infinity() ? 0 : most_yet;
          const float shrink = exp2f(largest(thread)[r] - top);
          largest(thread)[r] = most_yet;
          sum(thread)[r] *= shrink;
          REHEARSAL_UNROLL
          for (int c = 0; c < kR; ++c) {
            const float p = exp2f(s.v[r][c] - top);
            sum(thread)[r] += p;
            team.shared.weights.row(thread / kSide + r * kSide)[thread % kSide + c * kSide] = p;
          }
          REHEARSAL_UNROLL
          for (int c = 0; c < kColumns; ++c) result(thread).v[r][c] *= shrink;
        }
      });
      team.each(
          [&](int thread) { fill(thread, team.shared.other, rows(block + shape.values(kv), shape.kv_row(), key)); });
      team.each([&](int thread) { add_rows_times(thread, team.shared.weights, team.shared.other, result(thread)); });
    }
    team.template sum_of<kSide>(sum);
    if constexpr (kPart)
      put_together(team, head, first, result, largest, sum);
    else
      put_out(team, head, first, result, largest, sum);
  }

 private:
  template <class Team, class Result, class PerRow>
  REHEARSAL_DEVICE void put_out(Team& team, std::int64_t head, std::int64_t first, Result& result, PerRow& largest,
                                PerRow& sum) const {
    team.own([&](int thread) {
      Floats<kR> inverse;
      REHEARSAL_UNROLL
      for (int r = 0; r < kR; ++r) {
        const std::int64_t i = first + thread / kSide + r * kSide;
        inverse[r] = 1 / sum(thread)[r];
        if (thread % kSide == 0 && i < shape.positions)
          lse[shape.lse(head) + i] = largest(thread)[r] * kLn2 + logf(sum(thread)[r]);
      }
      write<kDepth>(thread, result(thread), inverse, out + shape.out(head) + first * shape.row(), shape.row(),
                    shape.positions - first, shape.depth, wide);
    });
  }

  // Rows of a head of queries, keys or values that begins at `at`, from position `first` on.
  REHEARSAL_DEVICE Rows<T> rows(const T* at, std::int64_t pitch, std::int64_t first) const {
    return {at + first * pitch, pitch, shape.positions - first, shape.depth, wide};
  }

  template <class Team, class Result, class PerRow>
  REHEARSAL_DEVICE void put_together(Team& team, std::int64_t head, std::int64_t first, Result& result, PerRow& largest,
                                     PerRow& sum) const {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    Local<Team, Floats<kR>> before(team);
    team.each([&](int thread) {  // all threads of a row read the value that one of them overwrites
      REHEARSAL_UNROLL
      for (int r = 0; r < kR; ++r) {
        const std::int64_t i = first + thread / kSide + r * kSide;
        before(thread)[r] = first_part || i >= shape.positions ? kNothing : lse[shape.lse(head) + i];
      }
    });
    team.own([&](int thread) {
      REHEARSAL_UNROLL
      for (int r = 0; r < kR; ++r) {
        const std::int64_t i = first + thread / kSide + r * kSide;
        if (i >= shape.positions) continue;
        const float old = before(thread)[r];
        const float now = sum(thread)[r] > 0 ? largest(thread)[r] * kLn2 + logf(sum(thread)[r]) : kNothing;
        const float top = Largest{}(old, now),
                    both = top == kNothing ? 0 : top + logf(expf(old - top) + expf(now - top));
        const float keep = expf(old - both), scale_new = sum(thread)[r] > 0 ? expf(now - both) / sum(thread)[r] : 0;
        if (thread % kSide == 0) lse[shape.lse(head) + i] = top == kNothing ? kNothing : both;
        float* to = out + shape.out(head) + i * shape.row();
        REHEARSAL_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          const int column = column_of<kDepth>(thread, c);
          if (column < shape.depth)
            to[column] = (first_part ? 0 : keep * to[column]) + scale_new * result(thread).v[r][c];
        }
      }
    });
  }
};

}  // namespace rehearsal::kernels
