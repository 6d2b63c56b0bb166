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
    std::int64_t b, heads, s, d;
  };
  // One position, odd sizes, and depths below, at and above the 16 lanes of a dot product.
  for (const auto& [b, heads, s, d] : {Case{1, 1, 1, 4}, Case{2, 3, 7, 5}, Case{1, 2, 9, 16}, Case{2, 1, 6, 35}})
    for (const bool causal : {true, false}) {
      CAPTURE(s);
      CAPTURE(d);
      CAPTURE(causal);
      const std::int64_t elements = b * s * heads * d;
      Floats qkv = random(3 * elements, 1), out(elements, NAN), lse(b * heads * s, NAN);
      run(KernelKind::attention, {b, heads, s, d, causal}, {&qkv, &out, &lse});
      Doubles levels;
      CHECK(distance(out, oracle::attention(b, heads, s, d, causal, wide(qkv), &levels)) < kClose);
      CHECK(distance(lse, levels) < kClose);

      Floats dout = random(elements, 2), dqkv(3 * elements, NAN);
      run(KernelKind::attention_gradient, {b, heads, s, d, causal}, {&qkv, &out, &lse, &dout, &dqkv});
      const Doubles direction = wide(dout);
      const auto loss = [&, bb = b, hh = heads, ss = s, dd = d](const Doubles& v) {
        return inner(direction, oracle::attention(bb, hh, ss, dd, causal, v));
      };
      CHECK(distance(dqkv, slopes(loss, wide(qkv))) < kClose);
    }
}

TEST_CASE("attention has the same bytes on every instruction set") {
  if (widest() == InstructionSet::portable) {
    MESSAGE("skipped: this machine has only one instruction set");
    return;
  }
  const Heads shape{2, 2, 33, 37, true};
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
  Surroundings first{.batch = {.tokens = tokens}}, second{.tensor = 1, .batch = {.tokens = tokens}};
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
