// The efficiency of a GPU that waits for its states (ZeRO-Infinity, arXiv 2104.07857, section 4): the paper's figures.
#include "models/offload.hpp"

#include <doctest/doctest.h>

using namespace rehearsal::models;

TEST_CASE("efficiency by bandwidth: the paper's figures, of 70 TFLOP/s and sequences of 1,024 tokens") {
  constexpr double kPeak = 70e12, kTokens = 1024;
  CHECK(efficiency(intensity_of_parameters(kTokens), 70e9, kPeak) == doctest::Approx(.506).epsilon(1e-3));
  CHECK(efficiency(intensity_of_optimizer(2 * kTokens), 1.5e12, kPeak) == doctest::Approx(.916).epsilon(1e-3));
  CHECK(efficiency(intensity_of_optimizer(2 * kTokens), 1.23e12, kPeak) == doctest::Approx(.9).epsilon(1e-3));
  CHECK(efficiency(intensity_of_checkpoints(2048, 1), 2e9, kPeak) == doctest::Approx(.584).epsilon(1e-3));
  // Half of it in under 1 GB/s from 8,192 columns on.
  CHECK(efficiency(intensity_of_checkpoints(8192, 1), 1e9, kPeak) > .5);
}
