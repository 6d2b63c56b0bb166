// Mamba-2's scan, head by head and chunk by chunk, with the scores of a chunk as a matrix. Equations:
// kernels/state_space.hpp. The gradient of what is left of a state is added up here term by term, in double: every
// product in which the level L_t occurs, with its sign.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/exponential.hpp"
#include "cpu/functions.hpp"
#include "cpu/vectors.hpp"

namespace rehearsal::cpu {
namespace {

using V = Vector4;

float inner(const float* a, const float* b, std::int64_t n) { return dot<V>(a, b, n); }
void add(float factor, const float* x, float* y, std::int64_t n) { add_scaled<V>(factor, x, y, n); }

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// One chunk of one sequence.
struct Chunk {
  std::int64_t first, length;   // tokens
  std::int64_t before, behind;  // its states of head 0, in `kept` and `scratch`
};
template <class Each>
void each_chunk(const ScanShape& shape, std::int64_t sequence, bool backwards, const Each& each) {
  const std::int64_t q = shape.chunk(), of_sequence = sequence * shape.heads * shape.depth * shape.states;
  for (std::int64_t k = 0; k < shape.chunks(); ++k) {
    const std::int64_t chunk = backwards ? shape.chunks() - 1 - k : k;
    each(Chunk{sequence * shape.positions + chunk * q, std::min(q, shape.positions - chunk * q),
               chunk * shape.state() + of_sequence, (chunk + 1) * shape.state() + of_sequence});
  }
}

// Rows of x and of its gradient: where the parts begin.
struct Columns {
  std::int64_t all, keys, queries;
  Columns(const ScanShape& shape, std::int64_t group)
      : all(shape.columns()),
        keys(shape.heads * shape.depth + group * shape.states),
        queries(keys + shape.groups * shape.states) {}
};

// C_t B_r for r <= t.
std::vector<float> scores(const ScanShape& shape, const Chunk& chunk, const Columns& at, const float* x) {
  const std::int64_t q = shape.chunk();
  std::vector<float> all(static_cast<std::size_t>(q * q));
  for (std::int64_t t = 0; t < chunk.length; ++t)
    for (std::int64_t r = 0; r <= t; ++r)
      all[static_cast<std::size_t>(t * q + r)] =
          inner(x + (chunk.first + t) * at.all + at.queries, x + (chunk.first + r) * at.all + at.keys, shape.states);
  return all;
}

// Steps and levels of a head in a chunk.
struct Levels {
  std::vector<float> step, level, since, left;  // since: exp(L_t); left: exp(L_end - L_t)
  Levels(const ScanShape& shape, const Chunk& chunk, std::int64_t head, const float* kept) {
    const float* from = kept + shape.behind_states() + 2 * (chunk.first * shape.heads + head);
    for (std::int64_t t = 0; t < chunk.length; ++t, from += 2 * shape.heads)
      step.push_back(from[0]), level.push_back(from[1]);
    for (const float l : level) since.push_back(exponential(l)), left.push_back(exponential(level.back() - l));
  }
};

}  // namespace

void scan(const ScanShape& shape, Piece piece, const float* x, const float* steps, const HeadScalars& scalars, float* y,
          float* kept) {
  const std::int64_t heads = shape.heads, d = shape.depth, n = shape.states, q = shape.chunk();
  if (!piece.follows) std::fill_n(kept, shape.state(), 0.f);
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence)
    each_chunk(shape, sequence, false, [&](const Chunk& chunk) {
      for (std::int64_t head = 0; head < heads; ++head) {
        float level = 0, *to = kept + shape.behind_states() + 2 * (chunk.first * heads + head);
        for (std::int64_t t = 0; t < chunk.length; ++t, to += 2 * heads) {
          to[0] = softplus(steps[(chunk.first + t) * heads + head] + scalars.bias(head));
          level += scalars.rate(head) * to[0], to[1] = level;
        }
      }
      for (std::int64_t group = 0; group < shape.groups; ++group) {
        const Columns at(shape, group);
        const auto score = scores(shape, chunk, at, x);
        for (std::int64_t head = group * heads / shape.groups; head < (group + 1) * heads / shape.groups; ++head) {
          const Levels of(shape, chunk, head, kept);
          const float* before = kept + chunk.before + head * d * n;
          float* behind = kept + chunk.behind + head * d * n;
          for (std::int64_t i = 0; i < d * n; ++i) behind[i] = of.since.back() * before[i];
          for (std::int64_t t = 0; t < chunk.length; ++t) {
            const float* row = x + (chunk.first + t) * at.all;
            float* result = y + ((chunk.first + t) * heads + head) * d;
            for (std::int64_t i = 0; i < d; ++i)
              result[i] =
                  of.since[t] * inner(before + i * n, row + at.queries, n) + scalars.skip(head) * row[head * d + i];
            for (std::int64_t r = 0; r <= t; ++r)
              add(exponential(of.level[t] - of.level[r]) * of.step[r] * score[t * q + r],
                  x + (chunk.first + r) * at.all + head * d, result, d);
            for (std::int64_t i = 0; i < d; ++i)
              add(of.left[t] * of.step[t] * row[head * d + i], row + at.keys, behind + i * n, n);
          }
        }
      }
    });
}

void scan_gradient(const ScanShape& shape, Piece piece, const float* x, const HeadScalars& scalars, const float* kept,
                   const float* dy, float* dscalars, float* dx, float* dsteps, float* scratch) {
  const std::int64_t heads = shape.heads, d = shape.depth, n = shape.states, q = shape.chunk();
  if (!piece.goes_on) std::fill_n(scratch + shape.chunks() * shape.state(), shape.state(), 0.f);
  float* terms = scratch + shape.behind_states();
  std::vector<float> inputs(static_cast<std::size_t>(q * d));  // du
  std::vector<double> levels(static_cast<std::size_t>(q));     // dL
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence)
    each_chunk(shape, sequence, true, [&](const Chunk& chunk) {
      for (std::int64_t group = 0; group < shape.groups; ++group) {
        const Columns at(shape, group);
        const auto score = scores(shape, chunk, at, x);
        const auto row = [&](std::int64_t t) { return x + (chunk.first + t) * at.all; };
        const auto drow = [&](std::int64_t t) { return dx + (chunk.first + t) * at.all; };
        for (std::int64_t t = 0; t < chunk.length; ++t)
          std::fill_n(drow(t) + at.keys, n, 0.f), std::fill_n(drow(t) + at.queries, n, 0.f);
        for (std::int64_t head = group * heads / shape.groups; head < (group + 1) * heads / shape.groups; ++head) {
          const Levels of(shape, chunk, head, kept);
          const float *before = kept + chunk.before + head * d * n, *behind = scratch + chunk.behind + head * d * n;
          float* dbefore = scratch + chunk.before + head * d * n;
          const auto given = [&](std::int64_t t) { return dy + ((chunk.first + t) * heads + head) * d; };
          std::fill(inputs.begin(), inputs.end(), 0.f), std::fill(levels.begin(), levels.end(), 0.);
          double end = 0;  // what the last level gets besides
          for (std::int64_t i = 0; i < d * n; ++i) {
            dbefore[i] = of.since.back() * behind[i];
            end += double(dbefore[i]) * double(before[i]);
          }
          for (std::int64_t t = 0; t < chunk.length; ++t) {
            double from_before = 0;
            for (std::int64_t i = 0; i < d; ++i) {
              const float by = of.since[t] * given(t)[i];
              from_before += double(by) * double(inner(before + i * n, row(t) + at.queries, n));
              add(by, before + i * n, drow(t) + at.queries, n);
              add(by, row(t) + at.queries, dbefore + i * n, n);
            }
            levels[t] += from_before;
            for (std::int64_t r = 0; r <= t; ++r) {
              const float left = exponential(of.level[t] - of.level[r]), met = score[t * q + r];
              const float by = left * of.step[r] * inner(given(t), row(r) + head * d, d);
              add(left * met, given(t), inputs.data() + r * d, d);
              add(by, row(r) + at.keys, drow(t) + at.queries, n);
              add(by, row(t) + at.queries, drow(r) + at.keys, n);
              const double moved = double(by) * double(met);
              levels[t] += moved, levels[r] -= moved;
            }
          }
          for (std::int64_t r = 0; r < chunk.length; ++r) {
            double to_behind = 0;
            for (std::int64_t i = 0; i < d; ++i) {
              const float value = row(r)[head * d + i], by = of.left[r] * of.step[r] * value;
              const float product = inner(behind + i * n, row(r) + at.keys, n);
              inputs[r * d + i] += of.left[r] * product;
              to_behind += double(by) * double(product);
              add(by, behind + i * n, drow(r) + at.keys, n);
            }
            levels[r] -= to_behind, end += to_behind;
          }
          levels[chunk.length - 1] += end;
          const float rate = scalars.rate(head), skip = scalars.skip(head);
          double sum = 0;
          for (std::int64_t t = chunk.length; t-- > 0;) {
            sum += levels[t];
            double input = 0, skipped = 0;
            for (std::int64_t i = 0; i < d; ++i) {
              const float value = row(t)[head * d + i], du = inputs[t * d + i], by = given(t)[i];
              drow(t)[head * d + i] = of.step[t] * du + skip * by;
              input += double(value) * double(du), skipped += double(value) * double(by);
            }
            const float dstep = float((double(rate) * sum + input) * double(-std::expm1(-of.step[t])));
            float* to = terms + (chunk.first + t) * 3 * heads + head;
            to[0] = rate * of.step[t] * float(sum), to[heads] = float(skipped), to[2 * heads] = dstep;
            dsteps[(chunk.first + t) * heads + head] = dstep;
          }
        }
      }
    });
  for (std::int64_t vector = 0; vector < 3; ++vector)
    for (std::int64_t head = 0; head < heads; ++head) {
      double sum = 0;
      for (std::int64_t t = 0; t < shape.tokens(); ++t) sum += double(terms[(t * 3 + vector) * heads + head]);
      float& to = dscalars[vector * scalars.heads + scalars.first + head];
      to = float(double(to) + sum);
    }
}

}  // namespace rehearsal::cpu
