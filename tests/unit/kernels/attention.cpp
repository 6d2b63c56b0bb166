// Attention and its gradient against hw/cpu: partial tiles, unpadded depths, a single position.
#include "trials.hpp"

namespace rehearsal::kernels {
namespace {

// Scores are sums of up to 256 products in fp32 and of order 1: exp() of them is good to kTolerance.
void compare(Trial& t, std::size_t shift) {
  CAPTURE(name(t.kernel.kind));
  CAPTURE(name(t.kernel.precision));
  CAPTURE(t.kernel.dims);
  CAPTURE(shift);
  const Operands found = t.by_host(shift, {.shuffle = 3, .poison = true});
  check_against_cpu(t, t.by_cpu(), found);
  CHECK(same_bits(t.by_host(shift), found));
}

}  // namespace

TEST_CASE("attention and its gradient do what hw/cpu does") {
  std::size_t number = 0;
  for (Trial& t : attention_trials()) compare(t, (++number + 1) / 2 % 2);
}

TEST_CASE("large scores neither overflow nor lose the smaller ones") {
  // Scores of order 1000, where exp() overflows without the largest being taken off, growing along the keys so that
  // every tile corrects the ones before it.
  for (const bool bf16 : {true, false}) {
    Trial t = attention_trial({1, 1, 200, 4}, {Mask::none}, 5, bf16);
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
