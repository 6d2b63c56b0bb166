// Scores, solved by hand.
#include <doctest/doctest.h>

#include "published/score.hpp"

using namespace rehearsal::published;

namespace {

Prediction row(const char* table, double predicted, double measured) {
  Prediction p;
  p.run.table = table;
  p.run.iteration_s = measured;
  p.iteration_s = predicted;
  p.flops_per_gpu = 1;
  return p;
}

}  // namespace

TEST_CASE("errors of a table") {
  // Errors +10 %, -20 %, +5 %, 0: mean of the absolute ones 8.75 %, bias -1.25 %. Sorted: 0, 5, 10, 20; the nearest
  // rank at or above half is the third.
  const auto scores = score({row("a", 1.1, 1), row("a", 1.6, 2), row("a", 4.2, 4), row("a", 8, 8)});
  REQUIRE(scores.size() == 1);
  const auto& s = scores[0];
  CHECK(s.rows == 4);
  CHECK(s.mean == doctest::Approx(.0875));
  CHECK(s.bias == doctest::Approx(-.0125));
  CHECK(s.median == doctest::Approx(.1));
  CHECK(s.p90 == doctest::Approx(.2));
  CHECK(s.rank_time == doctest::Approx(1));
  // The same work in 1, 2, 4, 8 s: rates 1, 1/2, 1/4, 1/8, geometric mean 2^-1.5. Off by 2^1.5 - 1, 2^.5 - 1, 1 -
  // 2^-.5, 1 - 2^-1.5.
  CHECK(s.constant == doctest::Approx((1.828427 + .414214 + .292893 + .646447) / 4));
}

TEST_CASE("rank correlation") {
  // Measured ranks 0 1 2, predicted 1 0 2: 1 - 6 (1 + 1 + 0) / (3 x 8) = .5
  const auto s = score({row("a", 2, 1), row("a", 1.5, 2), row("a", 3, 3)})[0];
  CHECK(s.rank_time == doctest::Approx(.5));
  // With equal values the ranks are shared: 0 1.5 1.5 against 0 1 2. Means 1 and 1; covariance 0+0+... = 1*1 + .5*0 +
  // .5*1 = 1.5; variances 1 + .25 + .25 = 1.5 and 2: 1.5 / sqrt(3).
  const auto shared = score({row("a", 1, 1), row("a", 2, 2), row("a", 2, 3)})[0];
  CHECK(shared.rank_time == doctest::Approx(1.5 / 1.7320508));
}

TEST_CASE("memory and fits") {
  auto ran = row("m", 1, 1), heavy = row("m", 1, 1), failed = row("m", 1, 1), missed = row("m", 1, 1);
  ran.peak = 11e9, ran.measured_peak = 10e9;
  heavy.peak = 8e9, heavy.measured_peak = 10e9, heavy.fits = false;
  failed.run.failed = missed.run.failed = true;
  failed.run.iteration_s = missed.run.iteration_s = std::nullopt;
  failed.fits = false;
  auto skipped = row("m", 9, 1);
  skipped.not_judged = "no reason";
  const auto s = score({ran, heavy, failed, missed, skipped})[0];
  CHECK(s.rows == 2);  // those with a time
  CHECK(s.memory_rows == 2);
  CHECK(s.memory_mean == doctest::Approx(.15));  // +10 %, -20 %
  CHECK(s.memory_bias == doctest::Approx(-.05));
  CHECK(s.ran_fits == 1);
  CHECK(s.ran_unfit == 1);
  CHECK(s.failed_unfit == 1);
  CHECK(s.failed_fits == 1);
  CHECK(s.not_judged == 1);
}

TEST_CASE("tables weigh the same, single rows do not count") {
  const auto o = overall(score(
      {row("a", 1.1, 1), row("a", 1.1, 1), row("a", 1.1, 1), row("b", 1.3, 1), row("b", 1.3, 1), row("one", 9, 1)}));
  CHECK(o.tables == 2);
  CHECK(o.rows == 5);
  CHECK(o.mean == doctest::Approx(.2));
}
