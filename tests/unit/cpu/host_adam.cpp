// A step shared by the cores of a host equals the step of a single rank, to the last bit.
#include "cpu/host_adam.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "base/bf16.hpp"
#include "cpu/functions.hpp"

using namespace rehearsal;

TEST_CASE("any number of threads takes the step of one rank, also rounded to bf16") {
  for (const std::int64_t n : {1, 31, 32, 33, 1000, 4097})
    for (const unsigned threads : {1u, 2u, 3u, 7u})
      for (const bool stored : {false, true}) {
        const auto size = std::size_t(n);
        std::vector<float> gradient(size), x(size), m(size), v(size);
        for (std::size_t i = 0; i < size; i++) gradient[i] = float(i % 13) * .25f - 1, x[i] = float(i % 7) - 3;
        auto expected = x, same = gradient, moments = std::vector<float>(2 * size);
        std::vector<std::uint16_t> rounded(stored ? size : 0);
        const backend::TrainingData learning;
        for (std::int64_t step = 0; step < 3; step++) {
          cpu::host_adam({n, step, gradient.data(), x.data(), m.data(), v.data(), stored ? rounded.data() : nullptr},
                         learning, threads);
          cpu::adamw(n, learning, step, kernels::Step::take, same.data(), expected.data(), moments.data());
        }
        CHECK(x == expected);
        CHECK(std::vector(moments.begin(), moments.begin() + n) == m);
        CHECK(std::vector(moments.begin() + n, moments.end()) == v);
        for (std::size_t i = 0; i < rounded.size(); i++) REQUIRE(rounded[i] == to_bf16(expected[i]));
        CHECK(gradient == same);
      }
}
