// Every kind of kernel against hw/cpu, in fp32 and bf16, on shapes that are no multiple of any tile, vector or block.
#include <set>

#include "trials.hpp"

namespace rehearsal::kernels {
namespace {

void compare(Trial& t, std::size_t shift) {
  CAPTURE(name(t.kernel.kind));
  CAPTURE(name(t.kernel.precision));
  CAPTURE(t.kernel.dims);
  CAPTURE(shift);
  const Operands found = t.by_host(shift);
  check_against_cpu(t, t.by_cpu(), found);
  // Neither the order of blocks and threads nor their number changes a bit, nor is anything read before it is written.
  CHECK(same_bits(t.by_host(shift, {.shuffle = 7, .poison = true}), found));
  CHECK(same_bits(t.by_host(shift, {.shuffle = 8, .poison = true, .multiprocessors = 7}), found));
}

}  // namespace

TEST_CASE("every kind does what hw/cpu does, on any shape and alignment") {
  std::set<KernelKind> met;
  std::vector<Trial> trials = plain_trials();
  for (Trial& t : expert_trials()) trials.push_back(std::move(t));
  for (Trial& t : context_trials()) trials.push_back(std::move(t));
  for (Trial& t : state_space_trials()) trials.push_back(std::move(t));
  for (Trial& t : document_trials()) trials.push_back(std::move(t));
  for (Trial& t : trials) {
    met.insert(t.kernel.kind);
    for (const std::size_t shift : {0, 1}) {
      compare(t, shift);
      Trial narrow = t.in_bf16();
      compare(narrow, shift);
    }
  }
  // optimizer.cpp has the five optimizers, and momentum and step of Muon.
  CHECK(met.size() == kKernelKinds - 7);
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
