// Attention row by row after FlashAttention-2 (Dao, arXiv 2307.08691, sections 2.2 and 3.1): only the scores of one
// query are held at a time; the gradient recomputes them from the log-sum-exp of each row.
//
// A row of qkv holds [Q | K | V], heads x depth columns of queries and kv_heads x depth each of keys and values; rows
// are batch x positions. With a context group each rank's keys and values are a separate block [K | V], and a rank
// processes them one after another (kernels/attention.hpp).
//   forward   s_ij = q_i k_j / sqrt(depth),  lse_i = log sum_j exp(s_ij),  p_ij = exp(s_ij - lse_i),
//             o_i = sum_j p_ij v_j
//   gradient  D_i = do_i o_i,  dp_ij = do_i v_j,  ds_ij = p_ij (dp_ij - D_i),  dv_j = sum_i p_ij do_i,
//             dq_i = sum_j ds_ij k_j / sqrt(depth),  dk_j = sum_i ds_ij q_i / sqrt(depth)
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/exponential.hpp"
#include "cpu/functions.hpp"
#include "cpu/vectors.hpp"

namespace rehearsal::cpu {
namespace {

// Where one head of one sequence begins. Keys and values are in qkv, or in a separate block.
struct Place {
  std::int64_t row, qkv_row, kv_row;  // strides from one position to the next
  std::int64_t queries, keys, out, lse;
  std::int64_t block;  // offset from K to V
  std::int64_t sequence;
  Place(const Heads& shape, bool apart, std::int64_t of, std::int64_t head)
      : row(shape.heads * shape.depth),
        qkv_row(row + 2 * shape.kv_heads * shape.depth),
        kv_row(apart ? qkv_row - row : qkv_row),
        queries(of * shape.positions * qkv_row + head * shape.depth),
        keys(of * shape.positions * kv_row + (apart ? 0 : row) + head / (shape.heads / shape.kv_heads) * shape.depth),
        out(of * shape.positions * row + head * shape.depth),
        lse((of * shape.heads + head) * shape.positions),
        block(shape.kv_heads * shape.depth),
        sequence(of) {}
};

// The keys that query i of a sequence sees.
struct Keys {
  std::int64_t first, end;
};
Keys seen_by(const Heads& shape, const Part& part, std::int64_t sequence, std::int64_t i) {
  const std::int64_t s = shape.positions, position = part.own.position(i, s);
  const std::int64_t end = shape.sight.mask == Mask::none ? s : part.from.up_to(position, s);
  if (!shape.sight.limited()) return {0, end};
  const std::int64_t document = shape.documents ? shape.documents[sequence * s * part.own.ranks + position] : 0;
  return {part.from.up_to(shape.sight.first(position, document) - 1, s), end};
}

float scale(const Heads& shape) { return float(1 / std::sqrt(double(shape.depth))); }

// Operands of attention: `block` has keys and values, and may be qkv.
struct Inputs {
  const float *qkv, *block;
};

template <class V>
REHEARSAL_BODY void head_forward(const Heads& shape, const Part& part, const Place& at, Inputs in, float* out,
                                 float* lse, float* scores) {
  const float factor = scale(shape);
  const std::int64_t d = shape.depth;
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < shape.positions; ++i) {
    const float* query = in.qkv + at.queries + i * at.qkv_row;
    const float* key = in.block + at.keys;
    const auto [unseen, seen] = seen_by(shape, part, at.sequence, i);
    float* result = out + at.out + i * at.row;
    float& level = lse[at.lse + i];
    if (part.first) level = kNothing, std::fill_n(result, d, 0.f);
    if (unseen >= seen) continue;
    float largest = kNothing;
    for (std::int64_t j = unseen; j < seen; ++j) {
      scores[j] = factor * dot<V>(query, key + j * at.kv_row, d);
      largest = std::max(largest, scores[j]);
    }
    double sum = 0;
    for (std::int64_t j = unseen; j < seen; ++j) scores[j] = exponential(scores[j] - largest);
    for (std::int64_t j = unseen; j < seen; ++j) sum += double(scores[j]);
    const double now = double(largest) + std::log(sum);
    const float* value = key + at.block;
    float share = float(1 / sum);
    if (level == kNothing) {
      level = float(now);
    } else {  // the earlier result keeps its weight in the sum
      const double before = double(level), top = std::max(before, now);
      const double both = top + std::log(std::exp(before - top) + std::exp(now - top));
      const float keep = float(std::exp(before - both));
      share = float(std::exp(now - both) / sum);
      for (std::int64_t c = 0; c < d; ++c) result[c] *= keep;
      level = float(both);
    }
    for (std::int64_t j = unseen; j < seen; ++j) add_scaled<V>(share * scores[j], value + j * at.kv_row, result, d);
  }
}

template <class V>
REHEARSAL_BODY void head_gradient(const Heads& shape, const Part& part, const Place& at, Inputs in, const float* out,
                                  const float* lse, const float* dout, float* dq, std::int64_t dq_row, float* dkv,
                                  float* weights) {
  const float factor = scale(shape);
  const std::int64_t d = shape.depth;
  for (std::int64_t i = 0; i < shape.positions; ++i) {
    const float *query = in.qkv + at.queries + i * at.qkv_row, *dresult = dout + at.out + i * at.row;
    float* dquery = dq + i * dq_row;
    const float level = dot<V>(dresult, out + at.out + i * at.row, d);
    const auto [unseen, seen] = seen_by(shape, part, at.sequence, i);
    for (std::int64_t j = unseen; j < seen; ++j)
      weights[j] = factor * dot<V>(query, in.block + at.keys + j * at.kv_row, d) - lse[at.lse + i];
    for (std::int64_t j = unseen; j < seen; ++j) weights[j] = exponential(weights[j]);
    for (std::int64_t j = unseen; j < seen; ++j) {
      const std::int64_t key = at.keys + j * at.kv_row, value = key + at.block;
      add_scaled<V>(weights[j], dresult, dkv + value, d);
      const float ds = factor * weights[j] * (dot<V>(dresult, in.block + value, d) - level);
      add_scaled<V>(ds, in.block + key, dquery, d);
      add_scaled<V>(ds, query, dkv + key, d);
    }
  }
}

template <class V>
REHEARSAL_BODY void forward(const Heads& shape, const Part& part, Inputs in, float* out, float* lse) {
  std::vector<float> scores(static_cast<std::size_t>(shape.positions));
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t h = 0; h < shape.heads; ++h)
      head_forward<V>(shape, part, Place(shape, in.block != in.qkv, b, h), in, out, lse, scores.data());
}

// dq and dkv are parts of dqkv, or separate sums.
template <class V>
REHEARSAL_BODY void gradient(const Heads& shape, const Part& part, Inputs in, const float* out, const float* lse,
                             const float* dout, float* dq, float* dkv) {
  std::vector<float> weights(static_cast<std::size_t>(shape.positions));
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const Place at(shape, in.block != in.qkv, b, h);
      const bool apart = dq != dkv;
      head_gradient<V>(shape, part, at, in, out, lse, dout, dq + (apart ? at.out : at.queries),
                       apart ? at.row : at.qkv_row, dkv, weights.data());
    }
}

#if defined(__x86_64__)
REHEARSAL_AVX2 void forward_avx2(const Heads& shape, const Part& part, Inputs in, float* out, float* lse) {
  forward<Vector8>(shape, part, in, out, lse);
}
REHEARSAL_AVX2 void gradient_avx2(const Heads& shape, const Part& part, Inputs in, const float* out, const float* lse,
                                  const float* dout, float* dq, float* dkv) {
  gradient<Vector8>(shape, part, in, out, lse, dout, dq, dkv);
}
#endif

void forward_on(InstructionSet set, const Heads& shape, const Part& part, Inputs in, float* out, float* lse) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) return forward_avx2(shape, part, in, out, lse);
#else
  (void)set;
#endif
  forward<Vector4>(shape, part, in, out, lse);
}

void gradient_on(InstructionSet set, const Heads& shape, const Part& part, Inputs in, const float* out,
                 const float* lse, const float* dout, float* dq, float* dkv) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) return gradient_avx2(shape, part, in, out, lse, dout, dq, dkv);
#else
  (void)set;
#endif
  gradient<Vector4>(shape, part, in, out, lse, dout, dq, dkv);
}

}  // namespace

void attention(Heads shape, const float* qkv, float* out, float* lse, InstructionSet set) {
  forward_on(set, shape, {}, {qkv, qkv}, out, lse);
}

void attention_gradient(Heads shape, const float* qkv, const float* out, const float* lse, const float* dout,
                        float* dqkv, InstructionSet set) {
  std::fill_n(dqkv, shape.batch * shape.positions * (shape.heads + 2 * shape.kv_heads) * shape.depth, 0.f);
  gradient_on(set, shape, {}, {qkv, qkv}, out, lse, dout, dqkv, dqkv);
}

void attention_part(Heads shape, Part part, const float* qkv, const float* block, float* sums, float* lse,
                    InstructionSet set) {
  forward_on(set, shape, part, {qkv, block}, sums, lse);
}

void attention_part_gradient(Heads shape, Part part, const float* qkv, const float* block, const float* out,
                             const float* lse, const float* dout, float* dq, float* dkv, InstructionSet set) {
  gradient_on(set, shape, part, {qkv, block}, out, lse, dout, dq, dkv);
}

}  // namespace rehearsal::cpu
