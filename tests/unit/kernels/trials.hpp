// The trials that every runner of kernels must pass (hosts and GPUs), and the tolerance of their results: one list.
#pragma once
#include <algorithm>
#include <limits>

#include "trial.hpp"

namespace rehearsal::kernels {

// Sums of up to some thousand terms in fp32 (attention, products) or of fp32 terms in double, and exponentials with
// errors of a few units of 2^-24: all well within this share of the largest entry.
inline constexpr double kTolerance = 1e-5;

inline bool is_loss(KernelKind kind, std::size_t operand) {
  return info(kind).operands[operand].holds == KernelOperand::Holds::loss;
}

inline bool holds_slots(KernelKind kind, std::size_t operand) {
  return info(kind).operands[operand].holds == KernelOperand::Holds::slots;
}

// Rounding decides equality: the oracle starts from the same bits, and does not write read-only operands.
inline void check_against_cpu(const Trial& t, const Operands& expected, const Operands& found) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t o = 0; o < expected.size(); ++o) {
    CAPTURE(o);
    if (o < operands_read(t.kernel.kind)) CHECK(same_bits(expected[o], t.operands[o]));
    if (same_bits(expected[o], t.operands[o]))
      CHECK(same_bits(found[o], expected[o]));
    else if (holds_slots(t.kernel.kind, o))
      CHECK(same_bits(found[o], expected[o]));
    else if (is_loss(t.kernel.kind, o))
      CHECK(double_in(found[o]) == doctest::Approx(double_in(expected[o])).epsilon(kTolerance));
    else
      CHECK(distance(found[o], expected[o], t.precision(o)) <= kTolerance);
  }
}

// T rows of h columns to k of E experts with C slots each.
inline std::vector<Trial> expert_trials() {
  using K = KernelKind;
  struct Shape {
    std::int64_t T, h, k, E, C;
  };
  std::vector<Trial> all;
  unsigned seed = 100;
  for (const auto& [T, h, k, E, C] : {Shape{1, 1, 1, 1, 1}, Shape{7, 24, 2, 5, 7}, Shape{70, 33, 3, 9, 11},
                                      Shape{9, 1032, 2, 4, 3}, Shape{300, 8, 2, 70, 300}})
    for (const bool renormalised : {false, true}) {
      for (const Routing routing : {Routing::by_logits, Routing::balanced, Routing::skewed}) {
        const KernelDims gates{T, E, k, C, renormalised, std::int64_t(routing)};
        Trial route = trial(K::route, gates, 0, 0, ++seed);
        if (E > 4)  // equal logits: the lower expert goes first
          for (std::int64_t row = 0; row < T; ++row)
            route.operands[0][std::size_t(row * E + 3)] = route.operands[0][std::size_t(row * E + 1)];
        const Operands after = route.by_cpu();
        Trial back = trial(K::route_gradient, gates, 0, 0, ++seed);
        back.operands[0] = after[3], back.operands[1] = after[2];
        all.push_back(std::move(route)), all.push_back(std::move(back));
        for (const K kind : {K::dispatch_rows, K::dispatch_rows_gradient, K::combine_rows, K::combine_rows_gradient}) {
          Trial rows = trial(kind, {T, h, k, E, C}, 0, 0, ++seed);
          rows.operands[*slots_operand(kind)] = after[2];
          all.push_back(std::move(rows));
        }
      }
    }
  for (const KernelDims dims : {KernelDims{1, 1, 1, 1, 1}, {2, 3, 5, 7, 4}, {3, 2, 17, 20, 33}})
    for (const K kind : {K::expert_linear, K::expert_linear_input_gradient, K::expert_linear_weight_gradient})
      all.push_back(trial(kind, dims, 0, 0, ++seed));
  return all;
}

// Rank `index` of a context group of c.
inline Trial on_context(Trial t, std::int64_t index) {
  t.context = index;
  return t;
}

// Documents of 1, 2, 3, ... positions, which the first sequence begins with; each later one begins with the next
// length.
inline Trial with_documents(Trial t, std::int64_t sequences, std::int64_t positions) {
  for (std::int64_t i = 0; i < sequences; ++i)
    for (std::int64_t begin = 0, length = i + 1; begin < positions; begin += length++)
      for (std::int64_t j = begin; j < std::min(begin + length, positions); ++j)
        t.documents.push_back(std::int32_t(begin));
  return t;
}

inline std::vector<Trial> document_trials() {
  using K = KernelKind;
  std::vector<Trial> all;
  unsigned seed = 900;
  const auto on = [&](Trial t, std::int64_t rank, std::int64_t sequences, std::int64_t positions) {
    all.push_back(with_documents(on_context(std::move(t), rank), sequences, positions));
    return all.back();
  };
  for (const std::int64_t n : {1, 24})
    for (const K kind : {K::add_positions, K::positions_gradient}) {
      on(trial(kind, {2 * 9, n, 9, 0, 0, 0, 1}, 0, 0, ++seed), 0, 2, 9);
      for (const std::int64_t rank : {0, 2}) on(trial(kind, {2 * 6, n, 6, 3, 1, 0, 1}, 0, 0, ++seed), rank, 2, 18);
      on(trial(kind, {6, n, 6, 0, 0, 2, 1}, 1, 0, ++seed), 0, 2, 6);  // rows of the second of two tensor ranks
    }
  // Documents within a tile, of several, and of more than one rank.
  for (const Sight sight : {Sight{Mask::causal, 0, false, 1}, Sight{Mask::causal, 4, false, 1},
                            Sight{Mask::causal, 5, true, 1}, Sight{Mask::causal_balanced, 0, false, 1}})
    for (const std::int64_t s : {6, 70, 130}) {
      const KernelDims dims{2, 4, s, 8, sight.dim(), 2};
      if (sight.mask == Mask::causal) {
        const Trial forward = on(trial(K::attention, dims, 0, 0, ++seed), 0, 2, s);
        Trial before = forward;
        const Operands after = before.by_cpu();
        Trial back = trial(K::attention_gradient, dims, 0, 0, ++seed);
        for (std::size_t o = 0; o < 3; ++o) back.operands[o] = after[o];
        on(std::move(back), 0, 2, s);
      }
      for (const std::int64_t rank : {0, 1, 2}) {
        KernelDims parts = dims;
        parts[6] = 3, parts[7] = kAllBlocks;
        Trial forward = on(trial(K::attention_part, parts, 0, 0, ++seed), rank, 2, 3 * s);
        const Operands after = forward.by_cpu();
        Trial back = trial(K::attention_part_gradient, parts, 0, 0, ++seed);
        back.operands[0] = forward.operands[0], back.operands[1] = forward.operands[1];
        back.operands[2] = after[2], back.operands[3] = after[3];
        on(std::move(back), rank, 2, 3 * s);
      }
    }
  return all;
}

inline std::vector<Trial> context_trials() {
  using K = KernelKind;
  std::vector<Trial> all;
  unsigned seed = 500;
  for (const bool balanced : {false, true})
    for (const std::int64_t n : {1, 7, 24})
      for (const std::int64_t rank : {0, 2}) {
        const std::int64_t c = 3, s = 6, b = 2, T = b * s;
        for (const K kind : {K::add_positions, K::positions_gradient})
          all.push_back(on_context(trial(kind, {T, n, s, c, balanced}, 0, 0, ++seed), rank));
        for (const K kind : {K::rotary, K::rotary_gradient})
          all.push_back(on_context(trial(kind, {T, s, 2, 2 * n, 5 * n, c, balanced}, 0, 0, ++seed), rank));
        for (const K kind : {K::join_rows, K::cut_rows})
          all.push_back(on_context(trial(kind, {b, s, n, c, balanced}, 0, 0, ++seed), rank));
        for (const K kind : {K::cut_columns, K::join_columns})
          for (const std::int64_t m : {std::int64_t{0}, c * n})
            all.push_back(trial(kind, {T, c, 2 * c * n, m}, 0, 0, ++seed));
        for (const K kind : {K::take_columns, K::put_columns})
          for (const std::int64_t first : {0, 8}) all.push_back(trial(kind, {T, 3 * n + 8, first, n}, 0, 0, ++seed));
      }
  // Tiles of queries and keys that see each other not at all, partly, and wholly; after an earlier step.
  struct Shape {
    std::int64_t b, heads, s, d, kv;
  };
  for (const auto& [b, heads, s, d, kv] : {Shape{1, 2, 70, 8, 1}, Shape{2, 1, 6, 33, 1}, Shape{1, 4, 130, 32, 2}})
    for (const Sight sight :
         {Sight{Mask::none}, Sight{Mask::causal}, Sight{Mask::causal_balanced}, Sight{Mask::causal, 75},
          Sight{Mask::causal_balanced, 5}, Sight{Mask::causal_balanced, 90, true}})
      for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, kAllBlocks})
        for (const std::int64_t rank : {0, 1, 2}) {
          const auto dims = [&, bb = b, hh = heads, ss = s, dd = d, kk = kv](std::int64_t of) {
            return KernelDims{bb, hh, ss, dd, sight.dim(), kk, 3, of};
          };
          Trial forward = on_context(trial(K::attention_part, dims(step), 0, 0, ++seed), rank);
          Trial whole = on_context(trial(K::attention_part, dims(kAllBlocks), 0, 0, seed), rank);
          const Operands after = whole.by_cpu();
          if (step == 1)  // results of the own block's step
            forward.operands[2] = after[2], forward.operands[3] = after[3];
          Trial back = on_context(trial(K::attention_part_gradient, dims(step), 0, 0, ++seed), rank);
          back.operands[0] = whole.operands[0], back.operands[2] = after[2], back.operands[3] = after[3];
          const auto block = std::ptrdiff_t(back.operands[1].size());
          const auto from = whole.operands[1].begin() + (step == kAllBlocks ? 0 : (rank + 3 - step) % 3 * block);
          back.operands[1].assign(from, from + block);
          all.push_back(std::move(forward)), all.push_back(std::move(back));
        }
  return all;
}

// Mamba-2, with states of widths that do and do not divide a sequence into chunks: one head, heads that share a group,
// and those of the second of three context ranks; whole sequences, and pieces at either end and in the middle.
inline std::vector<Trial> state_space_trials() {
  using K = KernelKind;
  struct Shape {
    std::int64_t b, s, heads, groups, n, d, c;
  };
  std::vector<Trial> all;
  unsigned seed = 900;
  for (const auto& [b, s, heads, groups, n, d, c] :
       {Shape{1, 1, 1, 1, 1, 1, 0}, Shape{2, 7, 2, 1, 3, 5, 0}, Shape{1, 12, 4, 2, 4, 8, 0}, Shape{3, 5, 6, 3, 7, 2, 3},
        Shape{1, 70, 2, 2, 33, 65, 0}})
    for (const Piece piece : {Piece{}, Piece{false, true}, Piece{true, true}, Piece{true, false}}) {
      const KernelDims dims{b, s, heads, groups, n, d, c, piece.dim()};
      // In bf16 the states that were kept are those of the same, rounded numbers.
      Trial forward = on_context(trial(K::scan, dims, 0, 0, ++seed), c > 0 ? 1 : 0).in_bf16();
      forward.kernel.precision = Precision::fp32;
      const Operands after = forward.by_cpu();
      Trial back = on_context(trial(K::scan_gradient, dims, 0, 0, ++seed), c > 0 ? 1 : 0);
      back.operands[0] = after[0], back.operands[1] = after[2], back.operands[2] = after[4];
      all.push_back(std::move(forward)), all.push_back(std::move(back));
      const std::int64_t m = heads * d + 2 * groups * n;
      for (const std::int64_t taps : {2, 4})
        if (s >= taps - 1)
          for (const K kind : {K::convolve, K::convolve_gradient})
            all.push_back(
                on_context(trial(kind, {b * s, m, s, taps, groups * n, c, piece.dim()}, 0, 0, ++seed), c > 0 ? 1 : 0));
      if (s > 2) all.push_back(trial(K::last_rows, {b * s, m, s, 4}, 0, 0, ++seed));
      for (const K kind : {K::gated_norm, K::gated_norm_gradient})
        all.push_back(trial(kind, {b * s, heads * d, groups}, 0, 0, ++seed));
      all.push_back(trial(K::copy_state, {d * n, b, 2 * s}, 0, 0, ++seed));
    }
  return all;
}

inline void set_loss(Values& operand, double value) { std::memcpy(operand.data(), &value, sizeof(value)); }

inline std::vector<Trial> plain_trials() {
  using K = KernelKind;
  std::vector<Trial> all;
  const auto add = [&](Trial t) { all.push_back(std::move(t)); };
  // Rows and columns: one of each, odd ones, whole vectors, more than a block, more than kNarrow columns.
  const std::vector<std::array<std::int64_t, 2>> shapes = {{1, 1}, {3, 7}, {5, 24}, {70, 33}, {9, 1032}, {33, 2049}};
  unsigned seed = 0;
  for (const auto& [rows, n] : shapes) {
    const std::int64_t s = rows % 3 == 0 ? rows / 3 : rows;
    for (const K kind : {K::load_rows, K::layer_norm, K::gelu, K::add_residual, K::gelu_gradient, K::add, K::clear,
                         K::copy, K::add_own_shard, K::gate, K::gate_gradient, K::over_frobenius})
      add(trial(kind, {rows * (traits(kind).flat ? n : 1), n}, 0, kind == K::add_own_shard ? 2 : 0, ++seed));
    for (const NewtonSchulz which : {NewtonSchulz::inner, NewtonSchulz::outer})
      for (const std::int64_t side : {std::int64_t{0}, n})
        add(trial(K::newton_schulz, {rows * n, std::int64_t(which), side}, 0, 0, ++seed));
    for (const K kind : {K::add_positions, K::positions_gradient}) add(trial(kind, {rows, n, s}, 0, 0, ++seed));
    for (const std::int64_t tensor : {0, 1, 2}) add(trial(K::own_rows, {rows, n, 3}, tensor, 0, ++seed));
    for (const K kind : {K::embed, K::embed_gradient})
      for (const std::int64_t tensor : {0, 1, 2}) add(trial(kind, {rows, n, 5}, tensor, 0, ++seed, 13));
    for (const K kind : {K::add_bias, K::bias_gradient}) {
      add(trial(kind, {rows, n, std::int64_t(Bias::whole)}, 0, 0, ++seed));
      add(trial(kind, {rows, 3 * n, std::int64_t(Bias::query_value)}, 0, 0, ++seed));
    }
    for (const K kind : {K::layer_norm_gradient, K::rms_norm, K::rms_norm_gradient, K::swiglu, K::swiglu_gradient})
      add(trial(kind, {rows, n}, 0, 0, ++seed));
    // One gain for three heads of queries, one for two of keys; values behind them.
    for (const K kind : {K::head_norm, K::head_norm_gradient})
      if (n < 1000) add(trial(kind, {rows, 3, 2, n}, 0, 0, ++seed));
    // Heads of one rank, and of the second of three.
    for (const std::int64_t c : {0, 3})
      for (const K kind : {K::attention_sinks, K::attention_sinks_gradient})
        if (n < 1000) {
          Trial sunk = trial(kind, {2, 3, rows, n, c}, 0, 0, ++seed);
          sunk.context = c > 0 ? 1 : 0;
          add(std::move(sunk));
        }
    // Three heads and some columns behind them; depths that do and do not divide into vectors.
    for (const K kind : {K::rotary, K::rotary_gradient})
      for (const std::int64_t d : {2 * n, std::int64_t{16}})
        if (n < 1000) add(trial(kind, {rows, s, 3, d, 3 * d + (n % 2 == 0 ? 8 : 1)}, 0, 0, ++seed));
    for (const std::int64_t tensor : {0, 1}) {
      Trial error = trial(K::squared_error, {rows, n, 4 * rows}, tensor, 0, ++seed);
      set_loss(error.operands[1], .25);
      add(std::move(error));
    }
    add(trial(K::squared_error_gradient, {rows, n, 4 * rows}, 0, 0, ++seed));
    // The second rank has some padding, the third only padding.
    const std::int64_t vocabulary = n + n / 2 + 1;
    for (const std::int64_t tensor : {0, 1, 2}) {
      const Trial local = trial(K::cross_entropy_local, {rows, n, vocabulary, 3}, tensor, 0, ++seed, int(vocabulary));
      add(local);
      // A chunk: its targets begin behind those of earlier rows.
      Trial chunk = local;
      chunk.kernel.dims[4] = 2, chunk.targets.insert(chunk.targets.begin(), {0, std::int32_t(vocabulary - 1)});
      add(chunk);
      Trial gradient =
          trial(K::cross_entropy_gradient, {rows, n, vocabulary, 2 * rows}, tensor, 0, ++seed, int(vocabulary));
      for (float& lse : gradient.operands[0]) lse = float(std::log(double(vocabulary))) + .1f * lse;
      add(std::move(gradient));
    }
    for (const std::int64_t tensor : {0, 1}) {
      Trial loss = trial(K::cross_entropy, {rows, n, vocabulary, 3, 2 * rows}, tensor, 0, ++seed);
      for (std::size_t i = 1; i < loss.operands[0].size(); i += 3)
        loss.operands[0][i] = 1 + std::abs(loss.operands[0][i]);
      for (std::int64_t i = 0; i < rows; ++i) {  // a rank with only padding
        loss.operands[0][std::size_t(3 * (2 * rows + i))] = -std::numeric_limits<float>::infinity();
        loss.operands[0][std::size_t(3 * (2 * rows + i) + 1)] = 0;
      }
      set_loss(loss.operands[2], .25);
      add(std::move(loss));
    }
    for (const std::int64_t k : {1, 19})
      for (const K kind : {K::linear, K::linear_input_gradient, K::linear_weight_gradient})
        if (n < 1000) add(trial(kind, {rows, n, k}, 0, 0, ++seed));
  }
  return all;
}

struct AttentionShape {
  std::int64_t batch, heads, positions, depth, kv_heads = heads;
};
// All four padded depths; positions below, at and beyond one and two tiles of 64 (of 32 for the gradient at depth 256);
// key heads shared by several query heads, within a sequence and across two.
inline const std::vector<AttentionShape> kAttentionShapes = {
    {1, 1, 1, 1},    {2, 1, 3, 5},      {1, 2, 64, 32},   {1, 1, 65, 31},  {2, 2, 130, 8},
    {1, 1, 70, 64},  {1, 2, 67, 40},    {1, 1, 129, 72},  {1, 1, 90, 128}, {1, 1, 66, 129},
    {1, 1, 40, 256}, {2, 6, 70, 12, 2}, {1, 4, 65, 32, 1}};

inline Trial attention_trial(const AttentionShape& s, const Sight& sight, unsigned seed, bool bf16) {
  Trial t = trial(KernelKind::attention, {s.batch, s.heads, s.positions, s.depth, sight.dim(), s.kv_heads}, 0, 0, seed);
  return bf16 ? t.in_bf16() : t;
}

// With the results of the forward pass; `out` as it is stored.
inline Trial attention_gradient_trial(const AttentionShape& s, const Sight& sight, unsigned seed, bool bf16) {
  Trial before = attention_trial(s, sight, seed, bf16);
  const Operands after = before.by_cpu();
  Trial t = trial(KernelKind::attention_gradient, before.kernel.dims, 0, 0, seed + 1);
  for (std::size_t o = 0; o < 3; ++o) t.operands[o] = after[o];
  return bf16 ? t.in_bf16() : t;
}

inline std::vector<Trial> attention_trials() {
  std::vector<Trial> all;
  unsigned seed = 0;
  for (const AttentionShape& shape : kAttentionShapes)
    // Windows within a tile, of more than one, and of more positions than there are.
    for (const Sight sight : {Sight{Mask::causal}, Sight{Mask::none}, Sight{Mask::causal, 5}, Sight{Mask::causal, 66},
                              Sight{Mask::causal, 1000}, Sight{Mask::causal, 65, true}})
      for (const bool bf16 : {true, false}) {
        ++seed;
        all.push_back(attention_trial(shape, sight, 2 * seed, bf16));
        all.push_back(attention_gradient_trial(shape, sight, 2 * seed, bf16));
      }
  return all;
}

inline constexpr std::array kOptimizers = {KernelKind::sgd, KernelKind::adamw, KernelKind::adamw_keep,
                                           KernelKind::adamw_rollback};

// Gradient and parameters of e elements, or of a buffer of all shards in which `data` selects the own one.
inline Trial optimizer_trial(KernelKind kind, std::int64_t e, Flat gradient, Flat parameters, std::int64_t data,
                             unsigned seed) {
  Trial t = trial(kind, {e, std::int64_t(gradient), std::int64_t(parameters)}, 0, data, seed);
  t.learning.learning_rate = 1e-2f, t.learning.weight_decay = .1f;
  t.steps = 3;
  if (t.operands.size() > 2)
    for (std::size_t i = std::size_t(e); i < t.operands[2].size(); ++i)
      t.operands[2][i] = std::abs(t.operands[2][i]) + 1;
  t.counts = true;
  t.counted = {{0, e / 3}, {e / 2, e}, {e, e}};
  return t;
}

// In bf16: the parameters are the rounded master copy, which is the last part of the states.
inline Trial with_master(const Trial& t) {
  Trial other = t;
  other.kernel.precision = Precision::bf16;
  const std::int64_t e = t.kernel.dims[0];
  const std::int64_t from = static_cast<Flat>(t.kernel.dims[2]) == Flat::part ? t.data * e : 0;
  if (other.operands.size() == 2) other.operands.emplace_back();
  for (std::int64_t i = 0; i < e; ++i) other.operands[2].push_back(t.operands[1][std::size_t(from + i)]);
  for (float& v : other.operands[1]) v = from_bf16(to_bf16(v));
  return other;
}

inline std::vector<Trial> optimizer_trials() {
  std::vector<Trial> all;
  unsigned seed = 0;
  for (const KernelKind kind : kOptimizers)
    for (const std::int64_t e : {1, 7, 1024, 5003})
      for (const Flat parameters : {Flat::own, Flat::part})
        all.push_back(optimizer_trial(kind, e, e == 7 ? Flat::part : Flat::own, parameters, 2, ++seed));
  return all;
}

// `found`: the same step in fp32. In bf16 the master copy must do what the fp32 parameters do, and the parameters must
// be the rounded master copy.
inline void check_master(const Trial& narrow, const Operands& rounded, const Operands& found) {
  CHECK(same_bits(rounded[0], found[0]));
  const std::int64_t e = narrow.kernel.dims[0];
  const std::int64_t from = static_cast<Flat>(narrow.kernel.dims[2]) == Flat::part ? narrow.data * e : 0;
  const std::size_t states = found.size() == 3 ? std::size_t(2 * e) : 0;
  for (std::size_t i = 0; i < narrow.operands[1].size(); ++i) {
    const std::int64_t own = std::int64_t(i) - from;
    if (own < 0)
      CHECK(rounded[1][i] == narrow.operands[1][i]);
    else
      CHECK(rounded[1][i] == from_bf16(to_bf16(rounded[2][states + std::size_t(own)])));
    if (own >= 0) CHECK(rounded[2][states + std::size_t(own)] == found[1][i]);
  }
  for (std::size_t i = 0; i < states; ++i) CHECK(rounded[2][i] == found[2][i]);
}

}  // namespace rehearsal::kernels
