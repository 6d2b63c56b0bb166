// Collectives from links alone, solved by hand, and NCCL's choice inside a node.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "collective/links.hpp"
#include "collective/registry.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;
using doctest::Approx;
using enum CollectiveKind;

TEST_CASE("the generation is given, or the nearest by its rate") {
  CHECK(generation(0, Bandwidth(300e9)).number == 3);
  CHECK(generation(0, Bandwidth(400e9)).number == 4);
  CHECK(generation(0, Bandwidth(200e9)).number == 2);  // an H800 has to say so
  CHECK(generation(4, Bandwidth(200e9)).number == 4);
  CHECK(generation(0, Bandwidth(1800e9)).number == 5);
  CHECK_THROWS_AS(generation(7, Bandwidth(300e9)), InternalError);
}

TEST_CASE("the switch adds large all-reduces of enough GPUs where it can") {
  const Bytes small((2 << 20) - 1), large(2 << 20);
  const auto choice = [](CollectiveKind kind, std::uint32_t ranks, Bytes size, int number) {
    return choose_in_node(kind, ranks, size, generation(number, Bandwidth(1))).algorithm;
  };
  CHECK(choice(all_reduce, 8, large, 4) == "nvls-all-reduce");
  CHECK(choice(all_reduce, 5, large, 4) == "nvls-all-reduce");
  CHECK(choice(all_reduce, 4, large, 4) == "ring-all-reduce");
  CHECK(choice(all_reduce, 5, large, 5) == "ring-all-reduce");
  CHECK(choice(all_reduce, 6, large, 5) == "nvls-all-reduce");
  CHECK(choice(all_reduce, 8, small, 4) == "ring-all-reduce");
  CHECK(choice(all_reduce, 8, large, 3) == "ring-all-reduce");
  // The halves, and so sequence parallelism, run rings.
  CHECK(choice(all_gather, 8, large, 4) == "ring-all-gather");
  CHECK(choice(reduce_scatter, 8, large, 5) == "ring-reduce-scatter");
  for (const auto kind : {all_reduce, all_gather, reduce_scatter})
    CHECK(registry().find(choice(kind, 8, large, 4)) != nullptr);
}

TEST_CASE("time from the links") {
  // Round constants: launch 10 us, step 1 us, ramp 100 us, the rate NCCL counts on; 4 GPUs of 300 x .8 = 240 GB/s.
  const Fit fit{10e-6, 1e-6, 100e-6, 1, 20e-6, 25e-6, .8};
  const auto& a100 = generation(3, Bandwidth(1));
  // All-reduce of 160 MB: w = 2 3/4 160 MB / 240 GB/s = 1 ms; 10 + 6 + 1000 + sqrt(100 x 1000) us.
  const auto ring = in_node(all_reduce, 4, Bytes(160'000'000), Bandwidth(300e9), a100, fit);
  CHECK(ring.seconds == Approx(1016e-6 + std::sqrt(.1) * 1e-3).epsilon(1e-9));
  // A gather has half the wire and half the steps.
  const auto half = in_node(all_gather, 4, Bytes(160'000'000), Bandwidth(300e9), a100, fit);
  CHECK(half.seconds == Approx(513e-6 + std::sqrt(100e-6 * 500e-6)).epsilon(1e-9));
  // In the switch: 450 x .85 x .8 = 306 GB/s; w = 272 MB (1 + 1/8) / 306 GB/s = 1 ms; 20 + 1000 + sqrt(25 x 1000) us.
  const auto nvls = in_node(all_reduce, 8, Bytes(272'000'000), Bandwidth(450e9), generation(4, Bandwidth(1)), fit);
  CHECK(nvls.algorithm == "nvls-all-reduce");
  CHECK(nvls.seconds == Approx(1020e-6 + std::sqrt(25e-6 * 1e-3)).epsilon(1e-9));
  CHECK(in_node(all_reduce, 1, Bytes(1000), Bandwidth(300e9), a100).seconds == 0);
  CHECK(in_node(all_reduce, 8, Bytes(), Bandwidth(300e9), a100).seconds == 0);
}
