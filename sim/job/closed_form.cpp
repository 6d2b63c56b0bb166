#include <algorithm>
#include <cmath>
#include <limits>

#include "job/goodput.hpp"

namespace rehearsal::job {
namespace {

// Expected seconds of a cycle: from the start of one checkpoint, with the previous one safe, to the start of the next,
// with this one safe. `before` and `work`: useful seconds before this checkpoint and after it.
//
// With rate f, c = stall + work, and T(w) = e^(f down) (e^(f w) - 1) / f, the expected time to get through w useful
// seconds without a failure from a safe checkpoint, restarts included: a failure within `save` repeats the work before
// and the cycle, a later one the work after. V = E[min(t, c)] + P(t < c) D + P(t < save) (T(before) + V)
// + P(save < t < c) T(work), where D = (e^(f down) - 1) / f is the expected down time.
double one(const Cycle& c, double before, double work) {
  const double f = c.failures, length = std::max(c.stall + work, c.save);
  if (f <= 0) return length;
  const auto through = [&](double w) { return std::exp(f * c.down) * std::expm1(f * w) / f; };
  const double down = std::expm1(f * c.down) / f;
  const double fails = -std::expm1(-f * length), early = -std::expm1(-f * c.save);
  return (fails * (1 / f + down) + early * through(before) + (fails - early) * through(work)) / (1 - early);
}

}  // namespace

double expected(const Cycle& c) {
  if (!c.nearer.empty()) return expected_in_tiers(c);
  if (c.work <= 0) return 0;
  const double interval = std::min(c.interval, c.work);
  const double cycles = std::ceil(c.work / interval - 1e-9);
  const double last = c.work - (cycles - 1) * interval;
  // The first work starts from a safe state; no work follows the last checkpoint.
  const double f = c.failures;
  const double first = f > 0 ? std::exp(f * c.down) * std::expm1(f * (cycles > 1 ? interval : last)) / f
                             : (cycles > 1 ? interval : last);
  double sum = first + one(c, last, 0);
  if (cycles > 1) sum += (cycles - 2) * one(c, interval, interval) + one(c, interval, last);
  return std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();
}

double young_interval(const Cycle& c) { return std::sqrt(2 * c.stall / c.failures); }

double best_interval(const Cycle& c) {
  if (c.failures <= 0) return c.work;
  const double least = std::max(c.save - c.stall, 1e-3), most = std::max(c.work, least);
  // Wall-clock time per useful second has a single minimum: golden section over the logarithm.
  const auto cost = [&](double interval) { return one(c, interval, interval) / interval; };
  double low = std::log(least), high = std::log(most);
  constexpr double kGolden = 0.6180339887498949;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double at_a = cost(std::exp(a)), at_b = cost(std::exp(b));
  for (int i = 0; i < 100 && high - low > 1e-9; ++i) {
    if (!(at_a > at_b)) {
      high = b, b = a, at_b = at_a;
      a = high - kGolden * (high - low), at_a = cost(std::exp(a));
    } else {
      low = a, a = b, at_a = at_b;
      b = low + kGolden * (high - low), at_b = cost(std::exp(b));
    }
  }
  return std::exp((low + high) / 2);
}

double best_rate(const Cycle& c) {
  if (c.failures <= 0) return 1;
  Cycle endless = c;
  endless.work = 1e12;
  const double interval = best_interval(endless);
  return one(endless, interval, interval) / interval;
}

}  // namespace rehearsal::job
