// Every kind of kernel against hw/cpu, in fp32 and bf16, on shapes that fit no tile, no vector and no block.
#include <set>

#include "trial.hpp"

namespace rehearsal::kernels {
namespace {

// Sums of up to some thousand terms in fp32 (attention, products) or of fp32 terms in double; exponentials that are a
// few units of 2^-24 apart: all well within this share of the largest entry.
constexpr double kTolerance = 1e-5;

bool is_loss(KernelKind kind, std::size_t operand) {
  return (kind == KernelKind::cross_entropy && operand == 2) || (kind == KernelKind::squared_error && operand == 1);
}

// Rounding decides what is equal: the oracle starts from the same bits, and leaves alone what is only read.
void compare(Trial& t, std::size_t shift) {
  CAPTURE(name(t.kernel.kind));
  CAPTURE(name(t.kernel.precision));
  CAPTURE(t.kernel.dims);
  CAPTURE(shift);
  const Operands expected = t.by_cpu(), found = t.by_host(shift);
  for (std::size_t o = 0; o < expected.size(); ++o) {
    CAPTURE(o);
    if (same_bits(expected[o], t.operands[o]))
      CHECK(same_bits(found[o], expected[o]));
    else if (is_loss(t.kernel.kind, o))
      CHECK(double_in(found[o]) == doctest::Approx(double_in(expected[o])).epsilon(kTolerance));
    else
      CHECK(distance(found[o], expected[o], t.precision(o)) <= kTolerance);
  }
  // Neither the order of blocks and threads nor their number changes a bit, nor is anything read before it is written.
  CHECK(same_bits(t.by_host(shift, {.shuffle = 7, .poison = true}), found));
  CHECK(same_bits(t.by_host(shift, {.shuffle = 8, .poison = true, .multiprocessors = 7}), found));
}

void set_loss(Values& operand, double value) { std::memcpy(operand.data(), &value, sizeof(value)); }

std::vector<Trial> trials() {
  using K = KernelKind;
  std::vector<Trial> all;
  const auto add = [&](Trial t) { all.push_back(std::move(t)); };
  // Rows and columns: one of each, odd ones, whole vectors, more than a block, more than kNarrow columns.
  const std::vector<std::array<std::int64_t, 2>> shapes = {{1, 1}, {3, 7}, {5, 24}, {70, 33}, {9, 1032}, {33, 2049}};
  unsigned seed = 0;
  for (const auto& [rows, n] : shapes) {
    const std::int64_t s = rows % 3 == 0 ? rows / 3 : rows;
    for (const K kind : {K::load_rows, K::layer_norm, K::gelu, K::add_residual, K::gelu_gradient, K::add, K::clear,
                         K::copy, K::add_own_shard})
      add(trial(kind,
                {rows * (kind == K::gelu || kind == K::gelu_gradient || kind == K::add || kind == K::clear ||
                                 kind == K::copy || kind == K::add_own_shard
                             ? n
                             : 1),
                 n},
                0, kind == K::add_own_shard ? 2 : 0, ++seed));
    for (const K kind : {K::add_positions, K::positions_gradient}) add(trial(kind, {rows, n, s}, 0, 0, ++seed));
    for (const K kind : {K::embed, K::embed_gradient})
      for (const std::int64_t tensor : {0, 1, 2}) add(trial(kind, {rows, n, 5}, tensor, 0, ++seed, 13));
    for (const K kind : {K::add_bias, K::bias_gradient}) {
      add(trial(kind, {rows, n, std::int64_t(Bias::whole)}, 0, 0, ++seed));
      add(trial(kind, {rows, 3 * n, std::int64_t(Bias::query_value)}, 0, 0, ++seed));
    }
    add(trial(K::layer_norm_gradient, {rows, n}, 0, 0, ++seed));
    for (const std::int64_t tensor : {0, 1}) {
      Trial error = trial(K::squared_error, {rows, n, 4 * rows}, tensor, 0, ++seed);
      set_loss(error.operands[1], .25);
      add(std::move(error));
    }
    add(trial(K::squared_error_gradient, {rows, n, 4 * rows}, 0, 0, ++seed));
    // The second rank has padding, the third nothing else.
    const std::int64_t vocabulary = n + n / 2 + 1;
    for (const std::int64_t tensor : {0, 1, 2}) {
      const Trial local = trial(K::cross_entropy_local, {rows, n, vocabulary, 3}, tensor, 0, ++seed, int(vocabulary));
      add(local);
      Trial gradient =
          trial(K::cross_entropy_gradient, {rows, n, vocabulary, 2 * rows}, tensor, 0, ++seed, int(vocabulary));
      for (float& lse : gradient.operands[0]) lse = float(std::log(double(vocabulary))) + .1f * lse;
      add(std::move(gradient));
    }
    for (const std::int64_t tensor : {0, 1}) {
      Trial loss = trial(K::cross_entropy, {rows, n, vocabulary, 3, 2 * rows}, tensor, 0, ++seed);
      for (std::size_t i = 1; i < loss.operands[0].size(); i += 3)
        loss.operands[0][i] = 1 + std::abs(loss.operands[0][i]);
      for (std::int64_t i = 0; i < rows; ++i) {  // a rank of padding alone
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

}  // namespace

TEST_CASE("every kind does what hw/cpu does, on any shape and alignment") {
  std::set<KernelKind> met;
  for (Trial& t : trials()) {
    met.insert(t.kernel.kind);
    for (const std::size_t shift : {0, 1}) {
      compare(t, shift);
      Trial narrow = t.in_bf16();
      compare(narrow, shift);
    }
  }
  // attention.cpp has the two kinds of attention, optimizer.cpp the four optimizers.
  CHECK(met.size() == kKernelKinds - 6);
}

TEST_CASE("a token's gradient is summed in the order of the batch, across the chunks of its search") {
  // 9000 places are two chunks of 8192; five tokens, of which one is another rank's.
  Trial t = trial(KernelKind::embed_gradient, {9000, 3, 4}, 0, 0, 3, 5);
  t.tokens[8999] = 3;
  const Operands expected = t.by_cpu();
  CHECK(same_bits(t.by_host(0, {.shuffle = 5, .poison = true}), expected));
}

TEST_CASE("sums over a grid use all of the scratch and no more") {
  // 3 million elements are more than kScratch blocks of 256 threads with 8 each: every thread strides.
  Trial t = trial(KernelKind::squared_error, {3000, 1001, 1}, 0, 0, 4);
  set_loss(t.operands[1], 0);
  CHECK(double_in(t.by_host()[1]) == doctest::Approx(double_in(t.by_cpu()[1])).epsilon(1e-12));
}

TEST_CASE("a bf16 product rounds once") {
  // 256 + 1 = 257 is no bf16 number; its neighbours are 256 and 258, and 257 is a tie: to even, 256. Rounding after
  // each of two more summands of 1/2 would stay at 256; the sum 258 is exact.
  Trial t = trial(KernelKind::linear, {1, 1, 4});
  t.kernel.precision = Precision::bf16;
  t.operands[0] = {256, 1, .5f, .5f};
  t.operands[1] = {1, 1, 1, 1};
  CHECK(t.by_host()[2][0] == 258);
  t.operands[0] = {256, 1, 0, 0};
  CHECK(t.by_host()[2][0] == 256);
}

TEST_CASE("bf16: every number survives, ties go to even, what is too large becomes infinite, a NaN stays") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 x{static_cast<std::uint16_t>(bits)};
    const float wide = widened(x);
    if (std::isnan(wide))
      CHECK(std::isnan(widened(stored<BFloat16>(wide))));
    else
      CHECK(stored<BFloat16>(wide).bits == bits);
  }
  CHECK(widened(stored<BFloat16>(257)) == 256);  // halfway between 256 and 258: even is 256 = 1.0000000b 2^8
  CHECK(widened(stored<BFloat16>(259)) == 260);  // halfway between 258 and 260: even is 260 = 1.0000010b 2^8
  CHECK(widened(stored<BFloat16>(257.001f)) == 258);
  CHECK(std::isinf(widened(stored<BFloat16>(3.4e38f))));  // the largest is (2 - 2^-7) 2^127 = 3.39e38
  CHECK(std::isnan(widened(stored<BFloat16>(std::bit_cast<float>(0x7f800001u)))));  // its upper half is an infinity
}

}  // namespace rehearsal::kernels
