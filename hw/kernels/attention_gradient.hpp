// Gradient of attention after FlashAttention-2 (Dao, arXiv 2307.08691, section 3.1); p_ij is recomputed from the
// log-sum-exp of each row (layout and forward equations: attention.hpp):
//   D_i = do_i o_i,  dp_ij = do_i v_j,  ds_ij = p_ij (dp_ij - D_i),  dv_j = sum_i p_ij do_i,
//   dq_i = sum_j ds_ij k_j / sqrt(depth),  dk_j = sum_i ds_ij q_i / sqrt(depth)
// Two kernels: one iterates over tiles of keys and sums over queries, the other over tiles of queries and sums over
// keys. Each sum belongs to one block and has a fixed order: no atomics, at the price of computing scores and dp twice
// (seven products instead of five).
#pragma once
#include "kernels/attention.hpp"

namespace rehearsal::kernels {

// kPart: keys and values are one rank's block; dq[rows, heads depth] and dkv[rows, 2 kv_heads depth] are fp32 sums that
// the kernel adds to.
template <class T, int kDepth, bool kPart = false>
struct AttentionOperands {
  using Gradient = std::conditional_t<kPart, float, T>;
  Heads shape;
  const T *qkv, *block, *out;
  const float* lse;
  const T* dout;
  Gradient *dq, *dkv;  // both are dqkv without separate blocks
  float scale;         // log2(e) / sqrt(depth)
  float factor;        // 1 / sqrt(depth)
  bool wide;

  // Four tiles of rows have to fit into shared memory: 152 KiB at depth 128 (A100: 163 KiB), 135 KiB at depth 256.
  static constexpr int kTile = kDepth <= 128 ? 64 : 32, kR = kTile / kSide, kColumns = kDepth / kSide;
  static constexpr int kResident = kDepth <= 64 ? 2 : 1;
  struct Shared {
    Tile<kTile, kDepth> queries, keys, values, dout;
    Tile<kTile, kTile> weights;
    float level[kTile], lse[kTile];  // D_i; log-sum-exp over ln 2
  };

  // Rows of a head of queries, and of keys or values, from position `first` on.
  REHEARSAL_DEVICE Rows<T> queries(std::int64_t head, std::int64_t first) const {
    const std::int64_t pitch = shape.qkv_row();
    return {qkv + shape.queries(head) + first * pitch, pitch, shape.positions - first, shape.depth, wide};
  }
  REHEARSAL_DEVICE Rows<T> rows(std::int64_t begin, std::int64_t first) const {
    const std::int64_t pitch = shape.kv_row();
    return {block + begin + first * pitch, pitch, shape.positions - first, shape.depth, wide};
  }
  REHEARSAL_DEVICE Rows<T> rows_of(const T* heads, std::int64_t head, std::int64_t first) const {
    return {heads + shape.out(head) + first * shape.row(), shape.row(), shape.positions - first, shape.depth, wide};
  }
  template <class SumsOf>
  REHEARSAL_DEVICE void write_rows(int thread, Gradient* to, std::int64_t pitch, std::int64_t first,
                                   const SumsOf& sums) const {
    Floats<kR> one;
    REHEARSAL_UNROLL
    for (int r = 0; r < kR; ++r) one[r] = 1;
    write<kDepth, kPart>(thread, sums, one, to + first * pitch, pitch, shape.positions - first, shape.depth, wide);
  }

  // Fills the shared data of a tile of queries: Q, dO, D and lse.
  template <class Team>
  REHEARSAL_DEVICE void fill_queries(Team& team, std::int64_t head, std::int64_t first) const {
    constexpr int kEach = kSquare / kTile;  // threads per row of D
    team.each([&](int thread) {
      fill(thread, team.shared.queries, queries(head, first));
      fill(thread, team.shared.dout, rows_of(dout, head, first));
      if (thread < kTile)
        team.shared.lse[thread] = first + thread < shape.positions ? lse[shape.lse(head) + first + thread] * kLog2e : 0;
    });
    Local<Team, Floats<1>> level(team);
    team.own([&](int thread) {
      const int row = thread / kEach;
      float sum = 0;
      if (first + row < shape.positions) {
        const T* o = out + shape.out(head) + (first + row) * shape.row();
        stride<kWide<T>>(thread % kEach, kEach, shape.depth, wide, [&](auto width, std::int64_t c) {
          const auto x = load<width()>(o + c);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) sum += x[e] * team.shared.dout.row(row)[c + e];
        });
      }
      level(thread)[0] = sum;
    });
    team.template sum_of<kEach>(level);
    team.each([&](int thread) {
      if (thread % kEach == 0) team.shared.level[thread / kEach] = level(thread)[0];
    });
  }
};

// dk and dv of a tile of keys, over all query heads that read it. Products are transposed: a thread's rows are keys,
// its columns queries.
template <class T, int kDepth, bool kPart = false>
struct AttentionKeys {
  using Operands = AttentionOperands<T, kDepth, kPart>;
  using Shared = typename Operands::Shared;
  static constexpr int kResident = Operands::kResident;
  static constexpr int kThreads = kSquare, kTile = Operands::kTile, kR = Operands::kR;
  Operands at;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    // The first keys of a causal head are seen by the most queries, so they go first.
    const std::int64_t all_heads = at.shape.batch * at.shape.kv_heads, kv_head = team.block() % all_heads,
                       sequence = kv_head / at.shape.kv_heads;
    const std::int64_t first = team.block() / all_heads * kTile;
    const std::int64_t keys = at.shape.keys(kv_head), values = at.shape.values(kv_head);
    Local<Team, Sums<kR, Operands::kColumns>> dkeys(team), dvalues(team);
    Local<Team, Sums<kR, kR>> slopes(team);
    team.each([&](int thread) {
      fill(thread, team.shared.keys, at.rows(keys, first));
      fill(thread, team.shared.values, at.rows(values, first));
      dkeys(thread).clear(), dvalues(thread).clear();
    });
    const std::int64_t tiles = (at.shape.positions + kTile - 1) / kTile;
    for (std::int64_t step = 0; step < at.shape.shared_by() * tiles; ++step) {
      const std::int64_t head = kv_head * at.shape.shared_by() + step / tiles, query = step % tiles * kTile;
      // None of these queries sees any of the keys.
      if (at.shape.seen(query + kTile - 1) <= first || first + kTile <= at.shape.unseen(sequence, query)) continue;
      at.fill_queries(team, head, query);
      team.each([&](int thread) {
        Sums<kR, kR> p;
        auto& ds = slopes(thread);
        rows_times_rows(thread, team.shared.keys, team.shared.queries, p);
        rows_times_rows(thread, team.shared.values, team.shared.dout, ds);
        int within[kR], unseen[kR];
        REHEARSAL_UNROLL
        for (int c = 0; c < kR; ++c) {
          const std::int64_t i = query + thread % kSide + c * kSide;
          within[c] = Heads::column(at.shape.within(i), first),
          unseen[c] = Heads::column(at.shape.unseen(sequence, i), first);
        }
        REHEARSAL_UNROLL
        for (int r = 0; r < kR; ++r) {
          REHEARSAL_UNROLL
          for (int c = 0; c < kR; ++c) {
            const int j = thread / kSide + r * kSide, i = thread % kSide + c * kSide;
            const bool seen = unseen[c] <= j && j < within[c];
            const float weight = seen ? exp2f(p.v[r][c] * at.scale - team.shared.lse[i]) : 0;
            ds.v[r][c] = weight * (ds.v[r][c] - team.shared.level[i]) * at.factor;
            team.shared.weights.row(j)[i] = weight;
          }
        }
      });
      team.each([&](int thread) { add_rows_times(thread, team.shared.weights, team.shared.dout, dvalues(thread)); });
      team.each([&](int thread) {
        REHEARSAL_UNROLL
        for (int r = 0; r < kR; ++r) {
          REHEARSAL_UNROLL
          for (int c = 0; c < kR; ++c)
            team.shared.weights.row(thread / kSide + r * kSide)[thread % kSide + c * kSide] = slopes(thread).v[r][c];
        }
      });
      team.each([&](int thread) { add_rows_times(thread, team.shared.weights, team.shared.queries, dkeys(thread)); });
    }
    team.own([&](int thread) {
      at.write_rows(thread, at.dkv + keys, at.shape.kv_row(), first, dkeys(thread));
      at.write_rows(thread, at.dkv + values, at.shape.kv_row(), first, dvalues(thread));
    });
  }
};

// dq of a tile of queries.
template <class T, int kDepth, bool kPart = false>
struct AttentionQueries {
  using Operands = AttentionOperands<T, kDepth, kPart>;
  using Shared = typename Operands::Shared;
  static constexpr int kResident = Operands::kResident;
  static constexpr int kThreads = kSquare, kTile = Operands::kTile, kR = Operands::kR;
  Operands at;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const std::int64_t all_heads = at.shape.batch * at.shape.heads, head = team.block() % all_heads;
    const std::int64_t first = ((at.shape.positions - 1) / kTile - team.block() / all_heads) * kTile;
    const std::int64_t end = at.shape.seen(first + kTile - 1), kv_head = at.shape.kv_of(head),
                       sequence = head / at.shape.heads;
    Local<Team, Sums<kR, Operands::kColumns>> dqueries(team);
    team.own([&](int thread) { dqueries(thread).clear(); });
    at.fill_queries(team, head, first);
    for (std::int64_t key = at.shape.unseen(sequence, first) / kTile * kTile; key < end; key += kTile) {
      team.each([&](int thread) {
        fill(thread, team.shared.keys, at.rows(at.shape.keys(kv_head), key));
        fill(thread, team.shared.values, at.rows(at.shape.values(kv_head), key));
      });
      team.each([&](int thread) {
        Sums<kR, kR> p, ds;
        rows_times_rows(thread, team.shared.queries, team.shared.keys, p);
        rows_times_rows(thread, team.shared.dout, team.shared.values, ds);
        REHEARSAL_UNROLL
        for (int r = 0; r < kR; ++r) {
          const std::int64_t query = first + thread / kSide + r * kSide;
          const int within = Heads::column(at.shape.within(query), key),
                    unseen = Heads::column(at.shape.unseen(sequence, query), key);
          REHEARSAL_UNROLL
          for (int c = 0; c < kR; ++c) {
            const int i = thread / kSide + r * kSide, j = thread % kSide + c * kSide;
            const bool seen = unseen <= j && j < within;
            const float weight = seen ? exp2f(p.v[r][c] * at.scale - team.shared.lse[i]) : 0;
            team.shared.weights.row(i)[j] = weight * (ds.v[r][c] - team.shared.level[i]) * at.factor;
          }
        }
      });
      team.each([&](int thread) { add_rows_times(thread, team.shared.weights, team.shared.keys, dqueries(thread)); });
    }
    team.own([&](int thread) {
      const std::int64_t to = kPart ? at.shape.out(head) : at.shape.queries(head);
      at.write_rows(thread, at.dq + to, kPart ? at.shape.row() : at.shape.qkv_row(), first, dqueries(thread));
    });
  }
};

}  // namespace rehearsal::kernels
