// Forward kernels against the definitions of oracle.hpp; gradient kernels against central differences of the same
// definitions, along a random direction dy: the gradient of <dy, f(x)>. fp32 keeps about seven digits of sums of a few
// dozen terms, so 2e-6 of the largest entry is a handful of roundings.
#include <numeric>

#include "cpu/functions.hpp"
#include "oracle.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

constexpr double kClose = 2e-6;
constexpr auto kWhole = static_cast<std::int64_t>(Bias::whole),
               kQueryValue = static_cast<std::int64_t>(Bias::query_value);

}  // namespace

TEST_CASE("layer_norm and its gradient") {
  constexpr std::int64_t T = 5, n = 37;
  Floats x = random(T * n, 1, 3), gain = random(n, 2), bias = random(n, 3), y(T * n, NAN), stats(2 * T, NAN);
  for (float& v : x) v += 2;  // a mean that is not 0
  run(KernelKind::layer_norm, {T, n}, {&x, &gain, &bias, &y, &stats});
  CHECK(distance(y, oracle::layer_norm(T, n, wide(x), wide(gain), wide(bias))) < kClose);
  const double mean = std::accumulate(x.begin(), x.begin() + n, 0.) / n;
  CHECK(double(stats[0]) == doctest::Approx(mean).epsilon(1e-6));

  const Floats direction = random(T * n, 4), before = random(n, 5);
  const Doubles dy = wide(direction);
  Floats dx = direction, dgain = before, dbias = before;
  run(KernelKind::layer_norm_gradient, {T, n}, {&x, &stats, &gain, &dgain, &dbias, &dx});
  const auto loss = [&](const Doubles& a, const Doubles& g, const Doubles& b) {
    return inner(dy, oracle::layer_norm(T, n, a, g, b));
  };
  CHECK(distance(dx, slopes([&](const Doubles& v) { return loss(v, wide(gain), wide(bias)); }, wide(x))) < kClose);
  Doubles gains = slopes([&](const Doubles& v) { return loss(wide(x), v, wide(bias)); }, wide(gain));
  Doubles biases = slopes([&](const Doubles& v) { return loss(wide(x), wide(gain), v); }, wide(bias));
  for (std::size_t j = 0; j < before.size(); ++j) gains[j] += before[j], biases[j] += before[j];  // they accumulate
  CHECK(distance(dgain, gains) < kClose);
  CHECK(distance(dbias, biases) < kClose);
}

TEST_CASE("rms_norm and its gradient") {
  constexpr std::int64_t T = 5, n = 37;
  Floats x = random(T * n, 1, 3), gain = random(n, 2), y(T * n, NAN), stats(T, NAN);
  for (float& v : x) v += 2;  // a mean that is not 0, and stays
  run(KernelKind::rms_norm, {T, n}, {&x, &gain, &y, &stats});
  CHECK(distance(y, oracle::rms_norm(T, n, wide(x), wide(gain))) < kClose);
  double squares = 0;
  for (std::int64_t j = 0; j < n; ++j) squares += double(x[j]) * double(x[j]) / n;
  CHECK(double(stats[0]) == doctest::Approx(1 / std::sqrt(squares + 1e-5)).epsilon(1e-6));
  // Epsilon keeps rows of zeros: r = 1 / sqrt(1e-5).
  Floats zeros(n), of_zeros(n, NAN), r(1, NAN);
  run(KernelKind::rms_norm, {1, n}, {&zeros, &gain, &of_zeros, &r});
  CHECK(of_zeros == zeros);
  CHECK(double(r[0]) == doctest::Approx(316.2278).epsilon(1e-6));

  const Floats direction = random(T * n, 4), before = random(n, 5);
  const Doubles dy = wide(direction);
  Floats dx = direction, dgain = before;
  run(KernelKind::rms_norm_gradient, {T, n}, {&x, &stats, &gain, &dgain, &dx});
  const auto loss = [&](const Doubles& a, const Doubles& g) { return inner(dy, oracle::rms_norm(T, n, a, g)); };
  CHECK(distance(dx, slopes([&](const Doubles& v) { return loss(v, wide(gain)); }, wide(x))) < kClose);
  Doubles gains = slopes([&](const Doubles& v) { return loss(wide(x), v); }, wide(gain));
  for (std::size_t j = 0; j < before.size(); ++j) gains[j] += before[j];  // they accumulate
  CHECK(distance(dgain, gains) < kClose);
}

TEST_CASE("rotary turns queries and keys by their positions, and its gradient turns back") {
  // Two sequences of 3 rows, two heads of 6 columns, and 5 columns behind them that stay.
  constexpr std::int64_t T = 6, s = 3, heads = 2, d = 6, columns = 17;
  const Floats before = random(T * columns, 1);
  Floats x = before;
  run(KernelKind::rotary, {T, s, heads, d, columns}, {&x});
  CHECK(distance(x, oracle::rotary({0, 1, 2, 0, 1, 2}, heads, d, columns, wide(before))) < kClose);
  for (std::int64_t row = 0; row < T; ++row)
    for (std::int64_t c = heads * d; c < columns; ++c) CHECK(x[row * columns + c] == before[row * columns + c]);

  const Floats direction = random(T * columns, 2);
  const Doubles dy = wide(direction);
  Floats dx = direction;
  run(KernelKind::rotary_gradient, {T, s, heads, d, columns}, {&dx});
  const auto loss = [&](const Doubles& v) {
    return inner(dy, oracle::rotary({0, 1, 2, 0, 1, 2}, heads, d, columns, v));
  };
  CHECK(distance(dx, slopes(loss, wide(before))) < kClose);
}

// Far along a sequence an angle in fp32 would be wrong by 1e5 x 2^-24 = 0.006.
TEST_CASE("rotary is exact at position 100000") {
  constexpr std::int64_t s = 100'001;
  Floats x(s * 4);
  x[(s - 1) * 4] = 1;
  run(KernelKind::rotary, {s, s, 1, 4, 4}, {&x});
  CHECK(double(x[(s - 1) * 4]) == doctest::Approx(std::cos(1e5)).epsilon(1e-6));
  CHECK(double(x[(s - 1) * 4 + 2]) == doctest::Approx(std::sin(1e5)).epsilon(1e-6));
}

TEST_CASE("swiglu and its gradient") {
  constexpr std::int64_t T = 7, f = 29;
  Floats u = random(T * 2 * f, 1, 3), g(T * f, NAN);
  u[0] = 90, u[1] = -90, u[2] = 0;  // far out it is the identity times up, or 0
  run(KernelKind::swiglu, {T, f}, {&u, &g});
  CHECK(distance(g, oracle::swiglu(T, f, wide(u))) < 1e-6);
  CHECK(g[0] == 90 * u[f]);

  Floats dg = random(T * f, 2), du(T * 2 * f, NAN);
  run(KernelKind::swiglu_gradient, {T, f}, {&u, &dg, &du});
  const Doubles direction = wide(dg);
  CHECK(distance(du, slopes([&](const Doubles& v) { return inner(direction, oracle::swiglu(T, f, v)); }, wide(u))) <
        kClose);
}

TEST_CASE("gelu and its gradient") {
  Floats u = random(1000, 1, 3);
  u.insert(u.end(), {0.f, -0.f, 1e-20f, -30.f, 30.f, -1e4f, 1e4f});  // far out it is 0 or the identity, never NaN
  Floats g(u.size(), NAN);
  run(KernelKind::gelu, {std::int64_t(u.size())}, {&u, &g});
  CHECK(distance(g, oracle::gelu(wide(u))) < 1e-7);
  CHECK(g[g.size() - 2] == 0);
  CHECK(g.back() == 1e4f);

  u.resize(1000);
  Floats du = random(1000, 2);
  const Doubles dg = wide(du);
  run(KernelKind::gelu_gradient, {1000}, {&u, &du});
  CHECK(distance(du, slopes([&](const Doubles& v) { return inner(dg, oracle::gelu(v)); }, wide(u))) < kClose);
}

TEST_CASE("attention and its gradient") {
  struct Case {
    std::int64_t b, heads, kv, s, d;
  };
  // One position, odd sizes, and depths below, at and above the 16 lanes of a dot product; all, some and one head of
  // keys and values.
  for (const auto& [b, heads, kv, s, d] : {Case{1, 1, 1, 1, 4}, Case{2, 3, 3, 7, 5}, Case{1, 2, 2, 9, 16},
                                           Case{2, 1, 1, 6, 35}, Case{2, 6, 2, 5, 3}, Case{1, 4, 1, 6, 17}})
    for (const Sight sight : {Sight{Mask::causal}, Sight{Mask::none}, Sight{Mask::causal, 1}, Sight{Mask::causal, 3},
                              Sight{Mask::causal, 100}, Sight{Mask::causal, 3, true}}) {
      CAPTURE(s);
      CAPTURE(d);
      CAPTURE(sight.dim());
      const std::int64_t elements = b * s * heads * d;
      Floats qkv = random(elements + 2 * b * s * kv * d, 1), out(elements, NAN), lse(b * heads * s, NAN);
      run(KernelKind::attention, {b, heads, s, d, sight.dim(), kv}, {&qkv, &out, &lse});
      Doubles levels;
      CHECK(distance(out, oracle::attention(b, heads, kv, s, d, sight, wide(qkv), &levels)) < kClose);
      CHECK(distance(lse, levels) < kClose);

      Floats dout = random(elements, 2), dqkv(qkv.size(), NAN);
      run(KernelKind::attention_gradient, {b, heads, s, d, sight.dim(), kv}, {&qkv, &out, &lse, &dout, &dqkv});
      const Doubles direction = wide(dout);
      const auto loss = [&, bb = b, hh = heads, kk = kv, ss = s, dd = d](const Doubles& v) {
        return inner(direction, oracle::attention(bb, hh, kk, ss, dd, sight, v));
      };
      CHECK(distance(dqkv, slopes(loss, wide(qkv))) < kClose);
    }
}

// A row of 3 heads of queries, 2 of keys and 2 of values, each of 5 columns: every head of queries and keys is a row of
// an RMS norm, values stay.
TEST_CASE("norms of the heads of queries and keys, and their gradient") {
  constexpr std::int64_t T = 4, heads = 3, kv = 2, d = 5, columns = (heads + 2 * kv) * d;
  Floats x = random(T * columns, 1, 2), gain = random(2 * d, 2), y(T * columns, NAN), stats(T * (heads + kv), NAN);
  const auto oracle = [&](const Doubles& v, const Doubles& g) {
    Doubles all = v;
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t h = 0; h < heads + kv; ++h) {
        const auto at = all.begin() + i * columns + h * d;
        const auto of = g.begin() + (h < heads ? 0 : d);
        const Doubles normed = oracle::rms_norm(1, d, Doubles(at, at + d), Doubles(of, of + d));
        std::copy(normed.begin(), normed.end(), at);
      }
    return all;
  };
  run(KernelKind::head_norm, {T, heads, kv, d}, {&x, &gain, &y, &stats});
  CHECK(distance(y, oracle(wide(x), wide(gain))) < kClose);

  const Floats direction = random(T * columns, 4), before = random(2 * d, 5);
  Floats dx = direction, dgain = before;
  run(KernelKind::head_norm_gradient, {T, heads, kv, d}, {&x, &stats, &gain, &dgain, &dx});
  CHECK(distance(dx, slopes([&](const Doubles& v) { return inner(wide(direction), oracle(v, wide(gain))); }, wide(x))) <
        kClose);
  Doubles gains = slopes([&](const Doubles& g) { return inner(wide(direction), oracle(wide(x), g)); }, wide(gain));
  for (std::size_t j = 0; j < before.size(); ++j) gains[j] += before[j];
  CHECK(distance(dgain, gains) < kClose);
}

TEST_CASE("attention with sinks: one more score for each head, whose key has no value") {
  constexpr std::int64_t b = 2, heads = 4, kv = 2, s = 7, d = 5, elements = b * s * heads * d;
  for (const Sight sight : {Sight{Mask::causal}, Sight{Mask::causal, 3}, Sight{Mask::none}}) {
    CAPTURE(sight.dim());
    Floats qkv = random(elements + 2 * b * s * kv * d, 1), out(elements, NAN), lse(b * heads * s, NAN);
    Floats sinks{-1, 0, 2, 30};  // the last one takes all
    const KernelDims dims{b, heads, s, d, sight.dim(), kv}, rows{b, heads, s, d};
    run(KernelKind::attention, dims, {&qkv, &out, &lse});
    run(KernelKind::attention_sinks, rows, {&sinks, &out, &lse});
    const auto attention = [&](const Doubles& v, const Doubles& z, Doubles* levels = nullptr) {
      return oracle::attention(b, heads, kv, s, d, sight, v, levels, &z);
    };
    Doubles levels;
    CHECK(distance(out, attention(wide(qkv), wide(sinks), &levels)) < kClose);
    CHECK(distance(lse, levels) < kClose);

    Floats dout = random(elements, 2), dqkv(qkv.size(), NAN), dsinks{1, 2, 3, 4};
    run(KernelKind::attention_sinks_gradient, rows, {&out, &lse, &dout, &sinks, &dsinks});
    run(KernelKind::attention_gradient, dims, {&qkv, &out, &lse, &dout, &dqkv});
    const Doubles direction = wide(dout);
    CHECK(distance(dqkv, slopes([&](const Doubles& v) { return inner(direction, attention(v, wide(sinks))); },
                                wide(qkv))) < kClose);
    Doubles expected = slopes([&](const Doubles& z) { return inner(direction, attention(wide(qkv), z)); }, wide(sinks));
    for (std::size_t h = 0; h < expected.size(); ++h) expected[h] += double(h + 1);  // they accumulate
    CHECK(distance(dsinks, expected) < kClose);

    // The third and fourth head, as the second of two context ranks has them.
    if (sight.keys > 0) continue;
    Floats half = random(b * s * 2 * d, 3), half_lse = random(b * 2 * s, 4), same = half, same_lse = half_lse;
    Floats own{2, 30};
    KernelContext second;
    second.context = 1;
    run(KernelKind::attention_sinks, {b, 2, s, d, 2}, {&sinks, &half, &half_lse}, second);
    run(KernelKind::attention_sinks, {b, 2, s, d}, {&own, &same, &same_lse});
    CHECK(half == same);
    CHECK(half_lse == same_lse);
  }
}

TEST_CASE("output gates") {
  Floats x = random(100, 1), u = random(100, 2, 2), y(100, NAN), dy = random(100, 3), dx(100, NAN), du(100, NAN);
  const auto gated = [](const Doubles& a, const Doubles& by) {
    Doubles result;
    for (std::size_t i = 0; i < a.size(); ++i) result.push_back(a[i] / (1 + std::exp(-by[i])));
    return result;
  };
  run(KernelKind::gate, {100}, {&x, &u, &y});
  CHECK(distance(y, gated(wide(x), wide(u))) < kClose);
  run(KernelKind::gate_gradient, {100}, {&x, &u, &dy, &dx, &du});
  CHECK(distance(dx, slopes([&](const Doubles& v) { return inner(wide(dy), gated(v, wide(u))); }, wide(x))) < kClose);
  CHECK(distance(du, slopes([&](const Doubles& v) { return inner(wide(dy), gated(wide(x), v)); }, wide(u))) < kClose);
}

TEST_CASE("a kernel that does not say how many heads of keys it has, has as many as of queries") {
  const Floats dout = random(2 * 5 * 6, 2);
  std::vector<Floats> results[2];
  for (const bool said : {false, true}) {
    Floats qkv = random(3 * 2 * 5 * 6, 1), out(2 * 5 * 6), lse(2 * 2 * 5), given = dout, dqkv(qkv.size());
    run(KernelKind::attention, {2, 2, 5, 3, 1, said ? 2 : 0}, {&qkv, &out, &lse});
    run(KernelKind::attention_gradient, {2, 2, 5, 3, 1, said ? 2 : 0}, {&qkv, &out, &lse, &given, &dqkv});
    results[said] = {out, lse, dqkv};
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("attention has the same bytes on every instruction set") {
  if (widest() == InstructionSet::portable) {
    MESSAGE("skipped: this machine has only one instruction set");
    return;
  }
  const Heads shape{2, 2, 33, 37, {Mask::causal, 20}, 2};
  const std::int64_t elements = 2 * 2 * 33 * 37;
  const Floats qkv = random(3 * elements, 1), dout = random(elements, 2);
  std::vector<Floats> results[2];
  for (const auto set : {InstructionSet::portable, widest()}) {
    Floats out(elements), lse(2 * 2 * 33), dqkv(3 * elements);
    attention(shape, qkv.data(), out.data(), lse.data(), set);
    attention_gradient(shape, qkv.data(), out.data(), lse.data(), dout.data(), dqkv.data(), set);
    results[set == InstructionSet::portable] = {out, lse, dqkv};
  }
  CHECK(results[0] == results[1]);
}

// Two rows, six columns. The middle third, the keys, has no bias.
TEST_CASE("biases") {
  Floats whole{1, 2, 3, 4, 5, 6}, some{10, 20, 30, 40}, y{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  run(KernelKind::add_bias, {2, 6, kWhole}, {&whole, &y});
  CHECK(y == Floats{1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 7});
  run(KernelKind::add_bias, {2, 6, kQueryValue}, {&some, &y});
  CHECK(y == Floats{11, 22, 3, 4, 35, 46, 12, 23, 4, 5, 36, 47});

  // Column sums 23 45 7 9 71 93, on top of what is there.
  run(KernelKind::bias_gradient, {2, 6, kWhole}, {&y, &whole});
  CHECK(whole == Floats{24, 47, 10, 13, 76, 99});
  run(KernelKind::bias_gradient, {2, 6, kQueryValue}, {&y, &some});
  CHECK(some == Floats{33, 65, 101, 133});
}

// 2^24 + 1 does not exist in fp32: a sum in fp32 would stay at 2^24.
TEST_CASE("the gradient of a bias sums in double") {
  Floats dy{16777216, 1, 1, 1, 1}, bias{0};
  run(KernelKind::bias_gradient, {5, 1, kWhole}, {&dy, &bias});
  CHECK(bias[0] == 16777220);
}

TEST_CASE("sums") {
  Floats x{1, 2, 3, 4}, bias{10, 20}, r{100, 200, 300, 400};
  run(KernelKind::add_residual, {2, 2}, {&x, &bias, &r});
  CHECK(r == Floats{111, 222, 313, 424});
  run(KernelKind::add, {4}, {&x, &r});
  CHECK(r == Floats{112, 224, 316, 428});
  run(KernelKind::clear, {3}, {&r});
  CHECK(r == Floats{0, 0, 0, 428});
  Floats same(4, NAN);
  run(KernelKind::copy, {4}, {&x, &same});
  CHECK(same == x);
  // Of two shards of two elements, the rank with data index 1 adds the second.
  Floats shard{1, 1};
  run(KernelKind::add_own_shard, {2}, {&x, &shard}, {.data = 1});
  CHECK(shard == Floats{4, 5});
}

// Vocabulary 4 over two tensor ranks with two rows each.
TEST_CASE("embedding: slices add up, positions repeat") {
  const std::vector<std::int32_t> tokens{3, 0, 2, 3};
  Floats low{1, 2, 3, 4}, high{5, 6, 7, 8}, y(8, NAN), other(8, NAN);
  KernelContext first{.batch = {.tokens = tokens}}, second{.tensor = 1, .batch = {.tokens = tokens}};
  run(KernelKind::embed, {4, 2, 2}, {&low, &y}, first);
  CHECK(y == Floats{0, 0, 1, 2, 0, 0, 0, 0});
  run(KernelKind::embed, {4, 2, 2}, {&high, &other}, second);
  CHECK(other == Floats{7, 8, 0, 0, 5, 6, 7, 8});

  // Rows 0 and 2 are at position 0, rows 1 and 3 at position 1.
  Floats positions{10, 20, 30, 40};
  run(KernelKind::add_positions, {4, 2, 2}, {&positions, &other});
  CHECK(other == Floats{17, 28, 30, 40, 15, 26, 37, 48});

  Floats dy{1, 2, 3, 4, 5, 6, 7, 8}, dhigh(4, 100), dpositions(4, 0);
  run(KernelKind::embed_gradient, {4, 2, 2}, {&dy, &dhigh}, second);
  CHECK(dhigh == Floats{105, 106, 108, 110});  // token 2 in row 2; token 3 in rows 0 and 3
  run(KernelKind::positions_gradient, {4, 2, 2}, {&dy, &dpositions});
  CHECK(dpositions == Floats{6, 8, 10, 12});
}

TEST_CASE("rows of the data are copied in") {
  const Floats rows{1, 2, 3, 4, 5, 6};
  Floats x(6, NAN);
  run(KernelKind::load_rows, {3, 2}, {&x}, {.batch = {.rows = rows}});
  CHECK(x == rows);
}

}  // namespace rehearsal::cpu
