// Mamba-2's scan over a sequence (state-space duality: Dao and Gu, arXiv 2405.21060, section 6) and its gradient, chunk
// by chunk. Layouts: table of KernelKind and ScanShape (base/kernels.hpp).
//
// A head has the state S[d, n]; for token t with values x_t[d], keys B_t[n], queries C_t[n] of its group and a step
//   dt_t = softplus(step_t + bias),  a_t = exp(-exp(A_log) dt_t):
//   S_t = a_t S_{t-1} + dt_t x_t B_t^T,   y_t = S_t C_t + D x_t.
// With L_t the sum of log a up to t within its chunk, S the state before the chunk and E_tr = exp(L_t - L_r), r <= t:
//   y_t = sum_r E_tr (C_t B_r) dt_r x_r + exp(L_t) S C_t + D x_t,
//   S_end = exp(L_end) S + sum_r exp(L_end - L_r) dt_r x_r B_r^T.
// Chunks are as long as a state is wide, so that their scores and the states cost the same (section 6.3).
// Gradients, with G the gradient of the state behind the chunk and u_r = dt_r x_r:
//   du_r = sum_t E_tr (C_t B_r) dy_t + exp(L_end - L_r) G B_r,   dx_r = dt_r du_r + D dy_r,
//   dC_t = sum_r E_tr (dy_t u_r) B_r + exp(L_t) S^T dy_t,
//   dB_r = sum_t E_tr (dy_t u_r) C_t + exp(L_end - L_r) G^T u_r,
//   dS = exp(L_end) G + sum_t exp(L_t) dy_t C_t^T,
//   dL_t = C_t dC_t - u_t du_t, all in which L_t occurs, with its sign; that of the last token <G, S_end> more.
// What a token gets of itself is in both products, and left out of both: it is large, and its difference noise. dC and
// dB are those of one head here; a group has their sums. The gradient of log a_t is the sum of dL from t on.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/team.hpp"

namespace rehearsal::kernels {

// The widest state: the scores of a token with its chunk are shared by a block.
inline constexpr std::int64_t kLargestState = 256;

REHEARSAL_DEVICE float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

template <class T>
REHEARSAL_DEVICE float inner(const T* a, const T* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t j = 0; j < n; ++j) sum += widened(a[j]) * widened(b[j]);
  return sum;
}

// The scalars of a head: those of this rank among all of its context group.
template <class T>
struct HeadScalars {
  const T* all;
  std::int64_t heads, first;  // of all ranks; of this one
  REHEARSAL_DEVICE float rate(std::int64_t head) const { return -expf(widened(all[first + head])); }
  REHEARSAL_DEVICE float skip(std::int64_t head) const { return widened(all[heads + first + head]); }
  REHEARSAL_DEVICE float bias(std::int64_t head) const { return widened(all[2 * heads + first + head]); }
};

// Columns of x, and what is kept of its tokens.
template <class T>
struct ScanRows {
  ScanShape shape;
  const T* x;
  const float* kept;

  REHEARSAL_DEVICE std::int64_t group(std::int64_t head) const { return head / (shape.heads / shape.groups); }
  REHEARSAL_DEVICE const T* values(std::int64_t token, std::int64_t head) const {
    return x + token * shape.columns() + head * shape.depth;
  }
  REHEARSAL_DEVICE std::int64_t keys_at(std::int64_t token, std::int64_t group) const {
    return token * shape.columns() + shape.heads * shape.depth + group * shape.states;
  }
  REHEARSAL_DEVICE const T* keys(std::int64_t token, std::int64_t group) const { return x + keys_at(token, group); }
  REHEARSAL_DEVICE const T* queries(std::int64_t token, std::int64_t group) const {
    return x + keys_at(token, group) + shape.groups * shape.states;
  }
  REHEARSAL_DEVICE float step(std::int64_t token, std::int64_t head) const {
    return kept[shape.behind_states() + 2 * (token * shape.heads + head)];
  }
  REHEARSAL_DEVICE float level(std::int64_t token, std::int64_t head) const {
    return kept[shape.behind_states() + 2 * (token * shape.heads + head) + 1];
  }
  // The state of a head before a chunk, in `kept` or `scratch`.
  REHEARSAL_DEVICE std::int64_t state_at(std::int64_t chunk, std::int64_t sequence, std::int64_t head) const {
    return chunk * shape.state() + (sequence * shape.heads + head) * shape.depth * shape.states;
  }
};

// Where a token is in its chunk.
struct InChunk {
  std::int64_t sequence, chunk, first, end;  // tokens of the chunk
  REHEARSAL_DEVICE InChunk(const ScanShape& shape, std::int64_t token)
      : sequence(token / shape.positions),
        chunk(token % shape.positions / shape.chunk()),
        first(sequence * shape.positions + chunk * shape.chunk()) {
    const std::int64_t last = (sequence + 1) * shape.positions;
    end = first + shape.chunk() < last ? first + shape.chunk() : last;
  }
};

// Element i: one chunk of one head.
template <class T>
struct ScanSteps {
  static constexpr int kAtOnce = 1;
  ScanShape shape;
  const T* steps;
  HeadScalars<T> scalars;
  float* kept;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t head = i % shape.heads, chunk = i / shape.heads % shape.chunks();
    const std::int64_t sequence = i / shape.heads / shape.chunks();
    const InChunk within(shape, sequence * shape.positions + chunk * shape.chunk());
    const float rate = scalars.rate(head), bias = scalars.bias(head);
    float level = 0;
    for (std::int64_t t = within.first; t < within.end; ++t) {
      const std::int64_t place = t * shape.heads + head;
      const float step = softplus(widened(steps[place]) + bias);
      level += rate * step;
      kept[shape.behind_states() + 2 * place] = step, kept[shape.behind_states() + 2 * place + 1] = level;
    }
  }
};

// Element i: one of the states, through all chunks. The first is there already if sequences go on.
template <class T>
struct ScanStates {
  static constexpr int kAtOnce = 1;
  ScanRows<T> rows;
  float* kept;
  bool follows;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const ScanShape& shape = rows.shape;
    const std::int64_t of_head = shape.depth * shape.states, head = i / of_head % shape.heads;
    const std::int64_t row = i / shape.states % shape.depth, column = i % shape.states;
    const std::int64_t sequence = i / of_head / shape.heads, group = rows.group(head);
    float state = follows ? kept[i] : 0.f;
    kept[i] = state;
    for (std::int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
      const InChunk within(shape, sequence * shape.positions + chunk * shape.chunk());
      const float end = rows.level(within.end - 1, head);
      state *= expf(end);
      for (std::int64_t t = within.first; t < within.end; ++t)
        state += expf(end - rows.level(t, head)) * rows.step(t, head) * widened(rows.values(t, head)[row]) *
                 widened(rows.keys(t, group)[column]);
      kept[(chunk + 1) * shape.state() + i] = state;
    }
  }
};

// A block serves one head of one token at a time, as all below that share something.
template <class T>
struct ScanResults {
  static constexpr int kThreads = 64;
  struct Shared {
    float weight[kLargestState];
  };
  ScanRows<T> rows;
  HeadScalars<T> scalars;
  T* y;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const ScanShape& shape = rows.shape;
    const std::int64_t n = shape.states, d = shape.depth;
    for (std::int64_t i = team.block(); i < shape.tokens() * shape.heads; i += team.blocks()) {
      const std::int64_t t = i / shape.heads, head = i % shape.heads, group = rows.group(head);
      const InChunk within(shape, t);
      const float level = rows.level(t, head), skip = scalars.skip(head);
      team.each([&](int thread) {
        for (std::int64_t r = within.first + thread; r <= t; r += kThreads)
          team.shared.weight[r - within.first] = expf(level - rows.level(r, head)) * rows.step(r, head) *
                                                 inner(rows.queries(t, group), rows.keys(r, group), n);
      });
      team.each([&](int thread) {
        const float* state = rows.kept + rows.state_at(within.chunk, within.sequence, head);
        for (std::int64_t row = thread; row < d; row += kThreads) {
          float sum = 0, before = 0;
          for (std::int64_t r = within.first; r <= t; ++r)
            sum += team.shared.weight[r - within.first] * widened(rows.values(r, head)[row]);
          for (std::int64_t j = 0; j < n; ++j) before += state[row * n + j] * widened(rows.queries(t, group)[j]);
          y[i * d + row] = stored<T>(sum + expf(level) * before + skip * widened(rows.values(t, head)[row]));
        }
      });
    }
  }
};

// --- gradient

// Element i: the gradient of one of the states, from the last chunk to the first.
template <class T>
struct ScanStatesGradient {
  static constexpr int kAtOnce = 1;
  ScanRows<T> rows;
  const T* dy;
  float* scratch;
  bool goes_on;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const ScanShape& shape = rows.shape;
    const std::int64_t of_head = shape.depth * shape.states, head = i / of_head % shape.heads;
    const std::int64_t row = i / shape.states % shape.depth, column = i % shape.states;
    const std::int64_t sequence = i / of_head / shape.heads, group = rows.group(head);
    float& last = scratch[shape.chunks() * shape.state() + i];
    float gradient = goes_on ? last : 0.f;
    last = gradient;
    for (std::int64_t chunk = shape.chunks(); chunk-- > 0;) {
      const InChunk within(shape, sequence * shape.positions + chunk * shape.chunk());
      gradient *= expf(rows.level(within.end - 1, head));
      for (std::int64_t t = within.first; t < within.end; ++t)
        gradient += expf(rows.level(t, head)) * widened(dy[(t * shape.heads + head) * shape.depth + row]) *
                    widened(rows.queries(t, group)[column]);
      scratch[chunk * shape.state() + i] = gradient;
    }
  }
};

// What tokens add to the gradients of scalars; while these are made, in the place of the first dL, of the last x du.
struct TokenTerms {
  float* all;
  std::int64_t heads;
  REHEARSAL_DEVICE float& rate(std::int64_t token, std::int64_t head) const { return all[token * 3 * heads + head]; }
  REHEARSAL_DEVICE float& skip(std::int64_t token, std::int64_t head) const {
    return all[(token * 3 + 1) * heads + head];
  }
  REHEARSAL_DEVICE float& bias(std::int64_t token, std::int64_t head) const {
    return all[(token * 3 + 2) * heads + head];
  }
};

// dx of the values of a head.
template <class T>
struct ScanValuesGradient {
  static constexpr int kThreads = 64;
  struct Shared {
    float weight[kLargestState];
  };
  ScanRows<T> rows;
  HeadScalars<T> scalars;
  const T* dy;
  const float* scratch;
  T* dx;
  TokenTerms terms;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const ScanShape& shape = rows.shape;
    const std::int64_t n = shape.states, d = shape.depth;
    Local<Team, double> inputs(team), later(team), skips(team);
    for (std::int64_t i = team.block(); i < shape.tokens() * shape.heads; i += team.blocks()) {
      const std::int64_t r = i / shape.heads, head = i % shape.heads, group = rows.group(head);
      const InChunk within(shape, r);
      const float level = rows.level(r, head), skip = scalars.skip(head), step = rows.step(r, head);
      team.each([&](int thread) {
        for (std::int64_t t = r + thread; t < within.end; t += kThreads)
          team.shared.weight[t - within.first] =
              expf(rows.level(t, head) - level) * inner(rows.queries(t, group), rows.keys(r, group), n);
      });
      team.each([&](int thread) {
        const float* state = scratch + rows.state_at(within.chunk + 1, within.sequence, head);
        const float left = expf(rows.level(within.end - 1, head) - level);
        inputs(thread) = later(thread) = skips(thread) = 0;
        for (std::int64_t row = thread; row < d; row += kThreads) {
          float sum = 0, behind = 0;
          for (std::int64_t t = r + 1; t < within.end; ++t)
            sum += team.shared.weight[t - within.first] * widened(dy[(t * shape.heads + head) * d + row]);
          for (std::int64_t j = 0; j < n; ++j) behind += state[row * n + j] * widened(rows.keys(r, group)[j]);
          const float by = widened(dy[i * d + row]), x = widened(rows.values(r, head)[row]);
          const float of_later = sum + left * behind, du = of_later + team.shared.weight[r - within.first] * by;
          dx[r * shape.columns() + head * d + row] = stored<T>(step * du + skip * by);
          inputs(thread) += double(x) * double(du), later(thread) += double(x) * double(of_later);
          skips(thread) += double(x) * double(by);
        }
      });
      const double input = team.sum(inputs), skipped = team.sum(skips), passed = team.sum(later);
      team.each([&](int thread) {
        if (thread > 0) return;
        terms.rate(r, head) = float(-double(step) * passed);
        terms.skip(r, head) = float(skipped), terms.bias(r, head) = float(input);
      });
    }
  }
};

// dB and dC of a group; a thread has a column of each.
template <class T>
struct ScanKeysGradient {
  static constexpr int kThreads = int(kLargestState);
  struct Shared {
    float earlier[kLargestState], later[kLargestState];
  };
  ScanRows<T> rows;
  const T* dy;
  const float* scratch;
  T* dx;
  TokenTerms terms;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const ScanShape& shape = rows.shape;
    const std::int64_t n = shape.states, d = shape.depth, each = shape.heads / shape.groups;
    Local<Team, float> queries(team), keys(team);
    Local<Team, double> product(team);
    for (std::int64_t i = team.block(); i < shape.tokens() * shape.groups; i += team.blocks()) {
      const std::int64_t t = i / shape.groups, group = i % shape.groups;
      const InChunk within(shape, t);
      team.own([&](int thread) { queries(thread) = keys(thread) = 0; });
      for (std::int64_t head = group * each; head < (group + 1) * each; ++head) {
        const float level = rows.level(t, head), step = rows.step(t, head);
        team.each([&](int thread) {
          for (std::int64_t r = within.first + thread; r < within.end; r += kThreads) {
            const std::int64_t place = r - within.first;
            if (r <= t)
              team.shared.earlier[place] = expf(level - rows.level(r, head)) * rows.step(r, head) *
                                           inner(dy + (t * shape.heads + head) * d, rows.values(r, head), d);
            if (r >= t)
              team.shared.later[place] = expf(rows.level(r, head) - level) * step *
                                         inner(dy + (r * shape.heads + head) * d, rows.values(t, head), d);
          }
        });
        team.each([&](int thread) {
          product(thread) = 0;
          if (thread >= n) return;
          const float* before = rows.kept + rows.state_at(within.chunk, within.sequence, head);
          const float* behind = scratch + rows.state_at(within.chunk + 1, within.sequence, head);
          float query = 0, key = 0, from_state = 0, to_state = 0;
          for (std::int64_t r = within.first; r < t; ++r)
            query += team.shared.earlier[r - within.first] * widened(rows.keys(r, group)[thread]);
          for (std::int64_t r = t; r < within.end; ++r)
            key += team.shared.later[r - within.first] * widened(rows.queries(r, group)[thread]);
          for (std::int64_t row = 0; row < d; ++row) {
            from_state += before[row * n + thread] * widened(dy[(t * shape.heads + head) * d + row]);
            to_state += behind[row * n + thread] * widened(rows.values(t, head)[row]);
          }
          query += expf(level) * from_state;
          product(thread) = double(query) * double(widened(rows.queries(t, group)[thread]));
          query += team.shared.earlier[t - within.first] * widened(rows.keys(t, group)[thread]);
          key += expf(rows.level(within.end - 1, head) - level) * step * to_state;
          queries(thread) += query, keys(thread) += key;
        });
        const double sum = team.sum(product);
        team.each([&](int thread) {
          if (thread == 0) terms.rate(t, head) += float(sum);
        });
      }
      team.own([&](int thread) {
        if (thread >= n) return;
        T* to = dx + rows.keys_at(t, group) + thread;
        to[0] = stored<T>(keys(thread)), to[shape.groups * n] = stored<T>(queries(thread));
      });
    }
  }
};

// Of one chunk of one head: gradients of its steps, of which softplus has the slope 1 - exp(-step).
template <class T>
struct ScanStepsGradient {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  ScanRows<T> rows;
  HeadScalars<T> scalars;
  const float* scratch;
  T* dsteps;
  TokenTerms terms;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const ScanShape& shape = rows.shape;
    Local<Team, double> product(team);
    for (std::int64_t i = team.block(); i < shape.batch * shape.chunks() * shape.heads; i += team.blocks()) {
      const std::int64_t head = i % shape.heads, chunk = i / shape.heads % shape.chunks();
      const std::int64_t sequence = i / shape.heads / shape.chunks();
      const InChunk within(shape, sequence * shape.positions + chunk * shape.chunk());
      const std::int64_t behind = rows.state_at(chunk + 1, sequence, head);
      team.own([&](int thread) {
        double sum = 0;
        for (std::int64_t j = thread; j < shape.depth * shape.states; j += kThreads)
          sum += double(rows.kept[behind + j]) * double(scratch[behind + j]);
        product(thread) = sum;
      });
      const double of_state = team.sum(product);
      team.own([&](int thread) {
        if (thread > 0) return;
        const float rate = scalars.rate(head);
        double sum = of_state;
        for (std::int64_t t = within.end; t-- > within.first;) {
          const float step = rows.step(t, head), input = terms.bias(t, head);
          sum += double(terms.rate(t, head));
          const float slope = -expm1f(-step), dstep = (rate * float(sum) + input) * slope;
          dsteps[t * shape.heads + head] = stored<T>(dstep);
          terms.bias(t, head) = dstep, terms.rate(t, head) = rate * step * float(sum);
        }
      });
    }
  }
};

// Columns of dscalars (columns.hpp).
struct ScalarColumns {
  static constexpr int kSums = 1;
  const float* terms;
  float* dscalars;
  std::int64_t heads, all, first;  // of this rank; of all of its context group
  std::int64_t columns;
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t column, double (&sums)[kSums]) const {
    sums[0] += double(terms[row * columns + column]);
  }
  REHEARSAL_DEVICE void give(std::int64_t column, const double (&sums)[kSums]) const {
    float& to = dscalars[column / heads * all + first + column % heads];
    to = float(double(to) + sums[0]);
  }
};

}  // namespace rehearsal::kernels
