#include "cpu/exponential.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace rehearsal::cpu {

// Every 1009th of the 2^32 bit patterns: 4.2 million floats of all sizes and both signs.
TEST_CASE("exponential is exp within 2 ulp") {
  double worst = 0;
  float at = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 1009) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) {
      if (!std::isnan(exponential(x))) FAIL("not a number became one");
      continue;
    }
    const double expected = std::exp(double(x));
    const float nearest = static_cast<float>(expected);
    if (std::isinf(nearest) || nearest == 0) {
      if (exponential(x) != nearest && std::abs(x - 88.7229f) > 1e-4f && std::abs(x + 103.972f) > 1e-3f)
        FAIL("out of range: " << x);
      continue;
    }
    const double ulp = double(std::nextafter(nearest, std::numeric_limits<float>::infinity())) - double(nearest);
    const double error = std::abs(double(exponential(x)) - expected) / ulp;
    if (!(error <= worst)) worst = error, at = x;
  }
  CAPTURE(at);
  CHECK(worst < 2);
  MESSAGE("largest error " << worst << " ulp at " << at);
}

TEST_CASE("exponential of the ends") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(exponential(0) == 1);
  CHECK(exponential(-kInfinity) == 0);
  CHECK(exponential(kInfinity) == kInfinity);
  CHECK(exponential(1e30f) == kInfinity);
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace rehearsal::cpu
