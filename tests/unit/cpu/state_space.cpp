// Mamba-2's kernels against the recurrence itself (arXiv 2405.21060, equation 1), token by token and in double, and
// gradients against its slopes; pieces of a sequence against the whole one, and heads of a context rank against all.
#include <algorithm>

#include "run.hpp"

namespace rehearsal::cpu {
namespace {

constexpr double kClose = 2e-6;

struct Mixed {
  std::int64_t b, s, heads, groups, n, d;
  std::int64_t columns() const { return heads * d + 2 * groups * n; }
};

double softplus(double x) { return std::log1p(std::exp(x)); }

// y of [b, s, heads, d]; `state` of [b, heads, d, n] goes on from what it holds.
Doubles recurrence(const Mixed& m, const Doubles& x, const Doubles& steps, const Doubles& scalars, Doubles& state) {
  Doubles y(m.b * m.s * m.heads * m.d);
  for (std::int64_t q = 0; q < m.b; ++q)
    for (std::int64_t t = q * m.s; t < (q + 1) * m.s; ++t)
      for (std::int64_t h = 0; h < m.heads; ++h) {
        const double step = softplus(steps[t * m.heads + h] + scalars[2 * m.heads + h]);
        const double left = std::exp(-std::exp(scalars[h]) * step);
        const std::int64_t keys = m.heads * m.d + h / (m.heads / m.groups) * m.n;
        for (std::int64_t i = 0; i < m.d; ++i) {
          const double value = x[t * m.columns() + h * m.d + i];
          double sum = scalars[m.heads + h] * value;
          for (std::int64_t j = 0; j < m.n; ++j) {
            double& s = state[((q * m.heads + h) * m.d + i) * m.n + j];
            s = left * s + step * value * x[t * m.columns() + keys + j];
            sum += s * x[t * m.columns() + keys + m.groups * m.n + j];
          }
          y[(t * m.heads + h) * m.d + i] = sum;
        }
      }
  return y;
}

Doubles silu(Doubles u) {
  for (double& v : u) v /= 1 + std::exp(-v);
  return u;
}

// Of rows of m columns, sequences of s; `before` may be empty.
Doubles convolved(std::int64_t s, std::int64_t m, std::int64_t taps, const Doubles& x, const Doubles& weight,
                  const Doubles& before) {
  Doubles u;
  for (std::int64_t row = 0; row < std::int64_t(x.size()) / m; ++row)
    for (std::int64_t c = 0; c < m; ++c) {
      u.push_back(weight[c * (taps + 1) + taps]);
      for (std::int64_t j = 0; j < taps; ++j) {
        const std::int64_t at = row % s - taps + 1 + j;
        if (at >= 0)
          u.back() += weight[c * (taps + 1) + j] * x[(row - taps + 1 + j) * m + c];
        else if (!before.empty())
          u.back() += weight[c * (taps + 1) + j] * before[(row / s * (taps - 1) + taps - 1 + at) * m + c];
      }
    }
  return silu(u);
}

void add(Doubles& to, double what) {
  for (double& v : to) v += what;
}

// Rows first .. first + length of every sequence of s, and back.
Floats rows_of(const Floats& all, std::int64_t s, std::int64_t width, std::int64_t first, std::int64_t length) {
  Floats part;
  for (auto at = all.begin() + first * width; at < all.end(); at += s * width)
    part.insert(part.end(), at, at + length * width);
  return part;
}
void put_rows(Floats& all, std::int64_t s, std::int64_t width, std::int64_t first, const Floats& part) {
  const std::int64_t length = std::int64_t(part.size()) * s / std::int64_t(all.size());
  for (std::int64_t q = 0; q < std::int64_t(all.size()) / (s * width); ++q)
    std::copy_n(part.begin() + q * length * width, length * width, all.begin() + (q * s + first) * width);
}

}  // namespace

TEST_CASE("a scan in chunks is the recurrence, and its gradients are the slopes of that") {
  // Chunks of n tokens: sequences of less than one, of whole ones, and of some and a rest.
  for (const Mixed m : {Mixed{1, 1, 1, 1, 1, 1}, Mixed{2, 3, 2, 1, 5, 2}, Mixed{1, 8, 2, 2, 4, 3},
                        Mixed{2, 11, 4, 2, 3, 5}, Mixed{1, 23, 2, 1, 8, 4}}) {
    CAPTURE(m.s);
    CAPTURE(m.n);
    const std::int64_t T = m.b * m.s;
    const ScanShape shape{m.b, m.s, m.heads, m.groups, m.n, m.d};
    Floats x = random(T * m.columns(), 1), steps = random(T * m.heads, 2), scalars = random(3 * m.heads, 3, .7);
    Floats y(T * m.heads * m.d, NAN), kept(shape.kept(), NAN), dy = random(y.size(), 4);
    const KernelDims dims{m.b, m.s, m.heads, m.groups, m.n, m.d};
    run(KernelKind::scan, dims, {&x, &steps, &scalars, &y, &kept});
    Doubles state(shape.state());
    CHECK(distance(y, recurrence(m, wide(x), wide(steps), wide(scalars), state)) < kClose);
    const Floats last(kept.begin() + shape.chunks() * shape.state(), kept.begin() + shape.behind_states());
    CHECK(distance(last, state) < kClose);

    Floats dscalars(scalars.size(), 1), dx(x.size(), NAN), dsteps(steps.size(), NAN), scratch(shape.scratch(), NAN);
    run(KernelKind::scan_gradient, dims, {&x, &scalars, &kept, &dy, &dscalars, &dx, &dsteps, &scratch});
    const auto loss = [&](const Doubles& of_x, const Doubles& of_steps, const Doubles& of_scalars) {
      Doubles begin(shape.state());
      return inner(wide(dy), recurrence(m, of_x, of_steps, of_scalars, begin));
    };
    CHECK(distance(dx, slopes([&](auto& v) { return loss(v, wide(steps), wide(scalars)); }, wide(x))) < kClose);
    CHECK(distance(dsteps, slopes([&](auto& v) { return loss(wide(x), v, wide(scalars)); }, wide(steps))) < kClose);
    Doubles expected = slopes([&](auto& v) { return loss(wide(x), wide(steps), v); }, wide(scalars));
    add(expected, 1);  // they accumulate
    CHECK(distance(dscalars, expected) < kClose);
  }
}

TEST_CASE("pieces of a sequence scan what the whole one scans") {
  const Mixed whole{2, 12, 4, 2, 3, 5};
  const std::int64_t T = whole.b * whole.s, m = whole.columns(), out = whole.heads * whole.d;
  const auto shape_of = [&](std::int64_t s) { return ScanShape{whole.b, s, 4, 2, 3, 5}; };
  Floats x = random(T * m, 1), steps = random(T * 4, 2), scalars = random(12, 3, .7), dy = random(T * out, 4);
  const auto train = [&](const std::vector<std::int64_t>& lengths) {
    struct Kept {
      std::int64_t first;
      Floats x, kept;
    };
    std::vector<Kept> pieces;
    Floats y(T * out), dx(T * m), dsteps(T * 4), dscalars(12), state(shape_of(1).state()), dstate = state;
    std::int64_t first = 0;
    const auto dims = [&](std::int64_t s, std::size_t i) {
      return KernelDims{2, s, 4, 2, 3, 5, 0, Piece{i > 0, i + 1 < lengths.size()}.dim()};
    };
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int64_t s = lengths[i];
      const ScanShape shape = shape_of(s);
      Floats own = rows_of(x, 12, m, first, s), own_steps = rows_of(steps, 12, 4, first, s), own_y(2 * s * out, NAN);
      Floats kept(shape.kept(), NAN);
      if (i > 0) run(KernelKind::copy_state, {shape.state(), 0, 0}, {&state, &kept});
      run(KernelKind::scan, dims(s, i), {&own, &own_steps, &scalars, &own_y, &kept});
      run(KernelKind::copy_state, {shape.state(), shape.chunks() * shape.state(), 0}, {&kept, &state});
      put_rows(y, 12, out, first, own_y);
      pieces.push_back({first, own, kept});
      first += s;
    }
    for (std::size_t i = lengths.size(); i-- > 0;) {
      const std::int64_t s = lengths[i];
      const ScanShape shape = shape_of(s);
      Floats scratch(shape.scratch(), NAN), own_dx(2 * s * m, NAN), own_dsteps(2 * s * 4, NAN);
      Floats own_dy = rows_of(dy, 12, out, pieces[i].first, s);
      if (i + 1 < lengths.size())
        run(KernelKind::copy_state, {shape.state(), 0, shape.chunks() * shape.state()}, {&dstate, &scratch});
      run(KernelKind::scan_gradient, dims(s, i),
          {&pieces[i].x, &scalars, &pieces[i].kept, &own_dy, &dscalars, &own_dx, &own_dsteps, &scratch});
      run(KernelKind::copy_state, {shape.state(), 0, 0}, {&scratch, &dstate});
      put_rows(dx, 12, m, pieces[i].first, own_dx), put_rows(dsteps, 12, 4, pieces[i].first, own_dsteps);
    }
    return std::vector{y, dx, dsteps, dscalars};
  };
  const auto all = train({12});
  const auto in_chunks = train({3, 6, 3});  // the same chunks: the same bytes, but for sums over all tokens
  for (std::size_t i = 0; i < 3; ++i) CHECK(in_chunks[i] == all[i]);
  for (const auto& lengths : {std::vector<std::int64_t>{3, 6, 3}, {5, 7}, {1, 1, 10}})
    for (std::size_t i = 0; i < 4; ++i) CHECK(distance(train(lengths)[i], wide(all[i])) < kClose);
}

TEST_CASE("a rank of a context group scans with the scalars, and convolves with the taps, of its own heads") {
  // Two ranks with one of two groups each; heads of three columns, states of two.
  Floats scalars = random(12, 1), taps = random(20 * 4, 2);
  const auto parted = [](const Floats& of, std::int64_t width, std::initializer_list<std::int64_t> from,
                         std::int64_t length) {
    Floats part;
    for (const auto first : from)
      part.insert(part.end(), of.begin() + first * width, of.begin() + (first + length) * width);
    return part;
  };
  KernelContext second;
  second.context = 1;
  const ScanShape shape{1, 5, 2, 1, 2, 3};
  Floats x = random(5 * 10, 3), steps = random(10, 4), y(30), kept(shape.kept()), same_y = y, same_kept = kept;
  Floats own = parted(scalars, 1, {2, 6, 10}, 2);
  run(KernelKind::scan, {1, 5, 2, 1, 2, 3, 2}, {&x, &steps, &scalars, &y, &kept}, second);
  run(KernelKind::scan, {1, 5, 2, 1, 2, 3}, {&x, &steps, &own, &same_y, &same_kept});
  CHECK(y == same_y);
  Floats dy = random(30, 5), dx(50), dsteps(10), scratch(shape.scratch()), dscalars(12), down(6);
  run(KernelKind::scan_gradient, {1, 5, 2, 1, 2, 3, 2}, {&x, &scalars, &kept, &dy, &dscalars, &dx, &dsteps, &scratch},
      second);
  run(KernelKind::scan_gradient, {1, 5, 2, 1, 2, 3}, {&x, &own, &kept, &dy, &down, &dx, &dsteps, &scratch});
  CHECK(parted(dscalars, 1, {2, 6, 10}, 2) == down);
  CHECK(parted(dscalars, 1, {0, 4, 8}, 2) == Floats(6));

  // Columns: twelve of values, of which six are its own; two each of B and C, behind those of the other rank.
  Floats convolved(50), same(50), own_taps = parted(taps, 4, {6, 7, 8, 9, 10, 11, 14, 15, 18, 19}, 1);
  run(KernelKind::convolve, {5, 10, 5, 3, 2, 2}, {&x, &taps, &x, &convolved}, second);
  run(KernelKind::convolve, {5, 10, 5, 3, 2}, {&x, &own_taps, &x, &same});
  CHECK(convolved == same);
}

TEST_CASE("a short convolution, its gradients, and rows that come from an earlier piece") {
  constexpr std::int64_t b = 2, s = 5, m = 3;
  for (const std::int64_t taps : {2, 4})
    for (const Piece piece : {Piece{}, Piece{true, false}, Piece{true, true}, Piece{false, true}}) {
      CAPTURE(taps);
      CAPTURE(piece.dim());
      const KernelDims dims{b * s, m, s, taps, 1, 0, piece.dim()};
      const std::size_t few = b * (taps - 1) * m;
      Floats x = random(b * s * m, 1), weight = random(m * (taps + 1), 2), before = random(few, 3), y(x.size(), NAN);
      Floats dy = random(x.size(), 4), after = random(few, 5), dweight(weight.size(), 2), dx(x.size(), NAN);
      Floats dbefore(few, NAN);
      run(KernelKind::convolve, dims, {&x, &weight, &before, &y});
      const auto of = [&](const Doubles& rows, const Doubles& w, const Doubles& earlier) {
        return convolved(s, m, taps, rows, w, piece.follows ? earlier : Doubles{});
      };
      CHECK(distance(y, of(wide(x), wide(weight), wide(before))) < kClose);
      run(KernelKind::convolve_gradient, dims, {&x, &weight, &before, &dy, &after, &dweight, &dx, &dbefore});
      const auto loss = [&](const Doubles& rows, const Doubles& w, const Doubles& earlier) {
        return inner(wide(dy), of(rows, w, earlier));
      };
      Doubles of_x = slopes([&](auto& v) { return loss(v, wide(weight), wide(before)); }, wide(x));
      Floats last(few);
      run(KernelKind::last_rows, {b * s, m, s, taps}, {&x, &last});
      for (std::int64_t q = 0; q < b; ++q)
        for (std::int64_t i = 0; i < (taps - 1) * m; ++i) {
          const std::int64_t at = ((q + 1) * s - taps + 1) * m + i;
          CHECK(last[q * (taps - 1) * m + i] == x[at]);
          if (piece.goes_on) of_x[at] += double(after[q * (taps - 1) * m + i]);
        }
      CHECK(distance(dx, of_x) < kClose);
      Doubles of_taps = slopes([&](auto& v) { return loss(wide(x), v, wide(before)); }, wide(weight));
      add(of_taps, 2);
      CHECK(distance(dweight, of_taps) < kClose);
      if (piece.follows)
        CHECK(distance(dbefore, slopes([&](auto& v) { return loss(wide(x), wide(weight), v); }, wide(before))) <
              kClose);
    }
}

TEST_CASE("a gated norm: the norm of x silu(z), within each run of columns") {
  constexpr std::int64_t T = 4, width = 5, runs = 3, m = width * runs;
  Floats x = random(T * m, 1), z = random(T * m, 2, 2), gain = random(m, 3), y(T * m, NAN), stats(T * runs, NAN);
  run(KernelKind::gated_norm, {T, m, runs}, {&x, &z, &gain, &y, &stats});
  const auto normed = [&](const Doubles& of, const Doubles& by, const Doubles& gains) {
    Doubles result, gate = silu(by);
    for (std::int64_t i = 0; i < T * runs; ++i) {
      double squares = 0;
      for (std::int64_t j = i * width; j < (i + 1) * width; ++j) squares += of[j] * gate[j] * of[j] * gate[j] / width;
      for (std::int64_t j = i * width; j < (i + 1) * width; ++j)
        result.push_back(gains[j % m] * of[j] * gate[j] / std::sqrt(squares + 1e-5));
    }
    return result;
  };
  CHECK(distance(y, normed(wide(x), wide(z), wide(gain))) < kClose);
  Floats dy = random(T * m, 4), dgain(m, 1), dx(T * m, NAN), dz(T * m, NAN);
  run(KernelKind::gated_norm_gradient, {T, m, runs}, {&x, &z, &stats, &gain, &dy, &dgain, &dx, &dz});
  const auto loss = [&](const Doubles& of, const Doubles& by, const Doubles& gains) {
    return inner(wide(dy), normed(of, by, gains));
  };
  CHECK(distance(dx, slopes([&](auto& v) { return loss(v, wide(z), wide(gain)); }, wide(x))) < kClose);
  CHECK(distance(dz, slopes([&](auto& v) { return loss(wide(x), v, wide(gain)); }, wide(z))) < kClose);
  Doubles gains = slopes([&](auto& v) { return loss(wide(x), wide(z), v); }, wide(gain));
  add(gains, 1);
  CHECK(distance(dgain, gains) < kClose);
}

}  // namespace rehearsal::cpu
