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

}  // namespace

TEST_CASE("a table is exact at its points and a power law between them") {
  const auto curves = table();
  bool measured = false;
  CHECK(curves.time(all_reduce, 8, Bytes(1'000'000), &measured) == Approx(100e-6).epsilon(1e-12));
  CHECK(measured);
  CHECK(curves.time(all_reduce, 8, Bytes(4'000'000)) == Approx(200e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(16'000'000)) == Approx(800e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(2'000'000)) == Approx(100e-6 * std::sqrt(2.)).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(8'000'000)) == Approx(400e-6).epsilon(1e-12));
  // Above: slope of the last segment. Below: (S/S0)^0.3, not under half.
  CHECK(curves.time(all_reduce, 8, Bytes(64'000'000)) == Approx(3200e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(500'000)) == Approx(100e-6 * std::pow(.5, .3)).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(1000)) == Approx(50e-6).epsilon(1e-12));
}

TEST_CASE("nothing to move takes no time") {
  CHECK(table().time(all_reduce, 1, Bytes(1'000'000)) == 0);
  CHECK(table().time(all_reduce, 8, Bytes()) == 0);
}

TEST_CASE("all that was measured is turned as a whole") {
  auto curves = table();
  curves.fitted[reduce_scatter] = {seconds(10e-6), Bandwidth(1e11), Bytes(1'000'000)};
  const auto before = curves;
  curves.time_factor = 1.5;
  for (const auto kind : {all_reduce, reduce_scatter})
    for (const std::uint32_t ranks : {4u, 8u})
      CHECK(curves.time(kind, ranks, Bytes(3'000'000)) ==
            Approx(1.5 * before.time(kind, ranks, Bytes(3'000'000))).epsilon(1e-12));
}

TEST_CASE("halves of an all-reduce") {
  auto curves = table();
  CHECK(curves.time(all_gather, 8, Bytes(4'000'000)) == Approx(100e-6).epsilon(1e-12));
  CHECK(curves.time(reduce_scatter, 8, Bytes(4'000'000)) == Approx(100e-6).epsilon(1e-12));
  // A measured all-gather also stands for the reduce-scatter: both run the ring where the all-reduce has a shortcut.
  curves.measured[{all_gather, 8}] = {{Bytes(4'000'000), seconds(150e-6)}};
  CHECK(curves.time(all_gather, 8, Bytes(4'000'000)) == Approx(150e-6).epsilon(1e-12));
  CHECK(curves.time(reduce_scatter, 8, Bytes(4'000'000)) == Approx(150e-6).epsilon(1e-12));
  CHECK(curves.time(all_reduce, 8, Bytes(4'000'000)) == Approx(200e-6).epsilon(1e-12));
}

TEST_CASE("a fitted curve serves the group sizes without a table") {
  // a 40 us, B 100 GB/s, Sg 4 MB at 8 ranks; S = 16 MB: 40 us + 160 us (1 + sqrt(1/4)) = 280 us. For 2 ranks the array
  // part shrinks by (1/2)/(7/8) = 4/7: 40 + 240 4/7 = 177.14 us.
  auto curves = table();
  curves.measured.clear();
  curves.fitted[all_reduce] = {seconds(40e-6), Bandwidth(100e9), Bytes(4'000'000)};
  bool measured = true;
  CHECK(curves.time(all_reduce, 8, Bytes(16'000'000), &measured) == Approx(280e-6).epsilon(1e-12));
  CHECK_FALSE(measured);
  CHECK(curves.time(all_reduce, 2, Bytes(16'000'000)) == Approx(40e-6 + 240e-6 * 4 / 7).epsilon(1e-12));
  CHECK(curves.time(reduce_scatter, 8, Bytes(16'000'000)) == Approx(140e-6).epsilon(1e-12));
}

TEST_CASE("else the nearest table, and an error when there is none") {
  auto curves = table();
  curves.measured[{all_reduce, 2}] = {{Bytes(1'000'000), seconds(10e-6)}, {Bytes(4'000'000), seconds(40e-6)}};
  bool measured = true;
  CHECK(curves.time(all_reduce, 3, Bytes(4'000'000), &measured) == Approx(40e-6).epsilon(1e-12));
  CHECK_FALSE(measured);
  CHECK(curves.time(all_reduce, 5, Bytes(4'000'000)) == Approx(200e-6).epsilon(1e-12));  // 2 and 8 equally near
  CHECK(curves.time(all_reduce, 16, Bytes(4'000'000)) == Approx(200e-6).epsilon(1e-12));
  CHECK_THROWS_AS(SizeCurves{}.time(all_reduce, 8, Bytes(1)), UserError);
}
