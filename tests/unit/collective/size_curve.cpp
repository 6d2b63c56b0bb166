// Size curves, solved by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "collective/size_curve.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;
using doctest::Approx;
using enum CollectiveKind;

namespace {

// 1 MB in 100 us, 4 MB in 200 us, 16 MB in 800 us: slopes 1/2 and 1 on log-log paper.
SizeCurves table() {
  SizeCurves curves;
  curves.name = "test";
  curves.measured[{all_reduce, 8}] = {
      {Bytes(1'000'000), seconds(100e-6)}, {Bytes(4'000'000), seconds(200e-6)}, {Bytes(16'000'000), seconds(800e-6)}};
  return curves;
}

// A closed form: 10 us a rank to start, and the array at 10 GB/s.
double form(std::uint32_t ranks, Bytes size) { return 10e-6 * ranks + double(size.count()) / 10e9; }

}  // namespace

TEST_CASE("a table is exact at its points and a power law between them") {
  const auto curves = table();
  CHECK(curves.time(all_reduce, 8, Bytes(1'000'000), form) == Approx(100e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(4'000'000), form) == Approx(200e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(16'000'000), form) == Approx(800e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(2'000'000), form) == Approx(100e-6 * std::sqrt(2.)).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(8'000'000), form) == Approx(400e-6).epsilon(1e-12));
  // Above: slope of the last segment. Below: (S/S0)^0.3, not under half.
  CHECK(curves.time(all_reduce, 8, Bytes(64'000'000), form) == Approx(3200e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(500'000), form) == Approx(100e-6 * std::pow(.5, .3)).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(1000), form) == Approx(50e-6).epsilon(1e-12));
}

TEST_CASE("nothing to move takes no time") {
  CHECK(table().time(all_reduce, 1, Bytes(1'000'000), form) == 0);
  CHECK(table().time(all_reduce, 8, Bytes(), form) == 0);
}

TEST_CASE("all that was measured is turned as a whole") {
  auto curves = table();
  curves.fitted[reduce_scatter] = {seconds(10e-6), Bandwidth(1e11), Bytes(1'000'000)};
  const auto before = curves;
  curves.time_factor = 1.5;
  for (const auto kind : {all_reduce, reduce_scatter})
    for (const std::uint32_t ranks : {4u, 8u})
      CHECK(curves.time(kind, ranks, Bytes(3'000'000), form) ==
            Approx(1.5 * before.time(kind, ranks, Bytes(3'000'000), form)).epsilon(1e-12));
}

TEST_CASE("halves of an all-reduce") {
  auto curves = table();
  CHECK(curves.time(all_gather, 8, Bytes(4'000'000), form) == Approx(100e-6).epsilon(1e-12));
  CHECK(curves.time(reduce_scatter, 8, Bytes(4'000'000), form) == Approx(100e-6).epsilon(1e-12));
  // A measured all-gather also stands for the reduce-scatter: both run the ring where the all-reduce has a shortcut.
  curves.measured[{all_gather, 8}] = {{Bytes(4'000'000), seconds(150e-6)}};
  CHECK(curves.time(all_gather, 8, Bytes(4'000'000), form) == Approx(150e-6).epsilon(1e-12));
  CHECK(curves.time(reduce_scatter, 8, Bytes(4'000'000), form) == Approx(150e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(4'000'000), form) == Approx(200e-6).epsilon(1e-12));
}

TEST_CASE("a fit is the curve of its own number of ranks; fewer start as the closed form says") {
  // a 40 us, B 100 GB/s, Sg 4 MB at 8 ranks; S = 16 MB: 40 us + 160 us (1 + sqrt(1/4)) = 280 us.
  auto curves = table();
  curves.measured.clear();
  curves.fitted[all_reduce] = {seconds(40e-6), Bandwidth(100e9), Bytes(4'000'000)};
  CHECK(curves.time(all_reduce, 8, Bytes(16'000'000), form) == Approx(280e-6).epsilon(1e-12));
  CHECK(curves.time(reduce_scatter, 8, Bytes(16'000'000), form) == Approx(140e-6).epsilon(1e-12));
  // 2 ranks: start 20 us + 1 byte, and 1.6 ms of bytes corrected by (280 - 40) us / 1.6 ms.
  CHECK(curves.time(all_reduce, 2, Bytes(16'000'000), form) == Approx(20e-6 + 240e-6).epsilon(1e-6));
  // Nothing of the 40 us of eight in a few bytes of two.
  CHECK(curves.time(all_reduce, 2, Bytes(1), form) == Approx(20e-6).epsilon(1e-3));
  // 16 ranks: as fast on the bus, where the closed form says 1.76 of 1.68 ms.
  CHECK(curves.time(all_reduce, 16, Bytes(16'000'000), form) == Approx(280e-6 * (15. / 16) / (7. / 8)).epsilon(1e-12));
}

TEST_CASE("between two numbers of ranks, by where the closed form stands between theirs") {
  auto curves = table();
  curves.measured[{all_reduce, 2}] = {{Bytes(1'000'000), seconds(10e-6)}, {Bytes(4'000'000), seconds(40e-6)}};
  // 4 MB: 420 us at 2 ranks, 480 us at 8; 40 and 200 us were measured.
  const auto between = [&](std::uint32_t ranks, double closed) {
    const double part = std::log(closed / 420e-6) / std::log(480. / 420);
    CHECK(curves.time(all_reduce, ranks, Bytes(4'000'000), form) == Approx(40e-6 * std::pow(5., part)).epsilon(1e-9));
  };
  between(3, 430e-6), between(5, 450e-6), between(7, 470e-6);
  CHECK(curves.time(all_reduce, 16, Bytes(4'000'000), form) == Approx(200e-6 * 560 / 480).epsilon(1e-12));
  CHECK_THROWS_AS(SizeCurves{}.time(all_reduce, 8, Bytes(1), form), UserError);
}

TEST_CASE("curves of more ranks than a node has are of whole nodes") {
  using enum SizeCurves::Of;
  auto curves = table();
  curves.measured_on.gpus = 4, curves.measured_on.nvlink = Bandwidth(1e9);
  CHECK(curves.across_nodes());
  CHECK_FALSE(curves.holds(all_reduce, one_node));
  CHECK(curves.time(all_reduce, 8, Bytes(4'000'000), form, whole_nodes) == Approx(200e-6).epsilon(1e-12));
  // Other numbers of nodes are as far from their closed form: 560 and 440 us of 480.
  CHECK(curves.time(all_reduce, 16, Bytes(4'000'000), form, whole_nodes) == Approx(200e-6 * 560 / 480).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 4, Bytes(4'000'000), form, whole_nodes) == Approx(200e-6 * 440 / 480).epsilon(1e-12));
  curves.measured_on.nvlink = {};  // a profile's are of its one machine
  CHECK(curves.holds(all_reduce, one_node));
}
