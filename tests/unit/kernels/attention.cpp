// Attention and its gradient against hw/cpu: tiles that are not full, depths that are not padded, one position.
#include "trial.hpp"

namespace rehearsal::kernels {
namespace {

// Scores are sums of up to 256 products in fp32 and of order 1: exp() of them is good to 1e-5.
constexpr double kTolerance = 1e-5;

struct Shape {
  std::int64_t batch, heads, positions, depth;
};
// All four padded depths; positions below, at and beyond one and two tiles of 64 (of 32 for the gradient at depth 256).
const std::vector<Shape> kShapes = {{1, 1, 1, 1},    {2, 1, 3, 5},    {1, 2, 64, 32}, {1, 1, 65, 31},
                                    {2, 2, 130, 8},  {1, 1, 70, 64},  {1, 2, 67, 40}, {1, 1, 129, 72},
                                    {1, 1, 90, 128}, {1, 1, 66, 129}, {1, 1, 40, 256}};

Trial forward(const Shape& s, bool causal, unsigned seed, bool bf16) {
  Trial t = trial(KernelKind::attention, {s.batch, s.heads, s.positions, s.depth, causal}, 0, 0, seed);
  return bf16 ? t.in_bf16() : t;
}

// With what the forward pass left: out as it is stored.
Trial backward(const Shape& s, bool causal, unsigned seed, bool bf16) {
  Trial before = forward(s, causal, seed, bf16);
  const Operands after = before.by_cpu();
  Trial t = trial(KernelKind::attention_gradient, before.kernel.dims, 0, 0, seed + 1);
  for (std::size_t o = 0; o < 3; ++o) t.operands[o] = after[o];
  return bf16 ? t.in_bf16() : t;
}

void compare(Trial& t, std::size_t shift) {
  CAPTURE(name(t.kernel.kind));
  CAPTURE(name(t.kernel.precision));
  CAPTURE(t.kernel.dims);
  CAPTURE(shift);
  const Operands expected = t.by_cpu(), found = t.by_host(shift, {.shuffle = 3, .poison = true});
  const std::size_t written = t.kernel.kind == KernelKind::attention ? 1 : 4;
  for (std::size_t o = 0; o < expected.size(); ++o) {
    CAPTURE(o);
    if (o < written)
      CHECK(same_bits(found[o], t.operands[o]));
    else
      CHECK(distance(found[o], expected[o], t.precision(o)) <= kTolerance);
  }
  CHECK(same_bits(t.by_host(shift), found));
}

}  // namespace

TEST_CASE("attention and its gradient do what hw/cpu does") {
  unsigned seed = 0;
  for (const Shape& shape : kShapes)
    for (const bool causal : {true, false})
      for (const bool bf16 : {true, false}) {
        const std::size_t shift = ++seed % 2;
        Trial one = forward(shape, causal, 2 * seed, bf16), other = backward(shape, causal, 2 * seed, bf16);
        compare(one, shift);
        compare(other, shift);
      }
}

TEST_CASE("large scores neither overflow nor lose the smaller ones") {
  // Scores of order 1000, where exp() overflows without the largest being taken off, growing along the keys so that
  // every tile corrects the ones before it.
  for (const bool bf16 : {true, false}) {
    Trial t = forward({1, 1, 200, 4}, false, 5, bf16);
    for (std::int64_t i = 0; i < 200; ++i)
      for (std::int64_t c = 0; c < 4; ++c) {
        t.operands[0][std::size_t(i * 12 + c)] = 32;
        t.operands[0][std::size_t(i * 12 + 4 + c)] = float(i / 8);
      }
    const Operands expected = t.by_cpu(), found = t.by_host(0, {.shuffle = 3, .poison = true});
    CHECK(distance(found[1], expected[1], t.precision(1)) <= kTolerance);
    CHECK(distance(found[2], expected[2], t.precision(2)) <= kTolerance);
    CHECK(*std::max_element(found[2].begin(), found[2].end()) > 1000);
  }
}

}  // namespace rehearsal::kernels
