// Runs on machines that fail: hand-solved cases, published formulas, and the simulation beside the closed form.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "job/goodput.hpp"

using namespace rehearsal::job;

namespace {
double uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * double(random() >> 11) * 0x1p-53;
}
double log_uniform(std::mt19937_64& random, double low, double high) {
  return std::exp(uniform(random, std::log(low), std::log(high)));
}
}  // namespace

TEST_CASE("nothing fails: the work and its checkpoints") {
  // 1000 s in intervals of 300: checkpoints after 300, 600, 900 and 1000, of 10 s each.
  const Cycle cycle{.work = 1000, .interval = 300, .stall = 10, .save = 10};
  CHECK(expected(cycle) == doctest::Approx(1040));
  CHECK(simulate(cycle, {}, 1, 3).mean == doctest::Approx(1040));
  // Asynchronous: 2 s each stop the training, and the end waits for the last, 50 s.
  const Cycle async{.work = 1000, .interval = 300, .stall = 2, .save = 50};
  CHECK(expected(async) == doctest::Approx(1000 + 3 * 2 + 50));
  CHECK(simulate(async, {}, 1, 3).mean == doctest::Approx(1056));
}

TEST_CASE("a checkpoint that stops the training: Daly's sum") {
  // Future Generation Computer Systems 22 (2006), eq. 13: M e^(R/M) (e^((tau + delta)/M) - 1) for each interval. The
  // first interval here begins safe, and the last checkpoint has nothing behind it, so n intervals of work have n + 1
  // pieces; their sum is Daly's for n intervals.
  const double m = 36000, tau = 3600, delta = 300, r = 900;
  const Cycle cycle{.work = 10 * tau, .interval = tau, .stall = delta, .save = delta, .down = r, .failures = 1 / m};
  const double daly = 10 * m * std::exp(r / m) * std::expm1((tau + delta) / m);
  CHECK(expected(cycle) == doctest::Approx(daly).epsilon(1e-9));
}

TEST_CASE("first order: Meta's expected training time ratio") {
  // arXiv 2410.21680: (1 - N r (u0 + dt/2)) / (1 + w/dt), where failures are rare.
  const double rate = 1e-7, u0 = 600, dt = 1800, w = 30;
  const Cycle cycle{.work = 1e7, .interval = dt, .stall = w, .save = w, .down = u0, .failures = rate};
  const double meta = (1 - rate * (u0 + dt / 2)) / (1 + w / dt);
  CHECK(cycle.work / expected(cycle) == doctest::Approx(meta).epsilon(2e-4));
}

TEST_CASE("the best interval is Young's where checkpoints are short, and nothing near it is better") {
  const Cycle cycle{.work = 5e6, .interval = 0, .stall = 20, .save = 20, .down = 900, .failures = 1. / 40000};
  const double best = best_interval(cycle);
  CHECK(best == doctest::Approx(young_interval(cycle)).epsilon(.02));
  // Daly's higher order (eq. 20): sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d.
  const double d = 20, m = 40000;
  CHECK(best ==
        doctest::Approx(std::sqrt(2 * d * m) * (1 + std::sqrt(d / (2 * m)) / 3 + d / (18 * m)) - d).epsilon(1e-4));
  const auto length = [&](double interval) {
    Cycle other = cycle;
    other.interval = interval, other.work = 1000 * interval;
    return expected(other) / other.work;
  };
  CHECK(length(best) < length(best * 1.2));
  CHECK(length(best) < length(best / 1.2));
}

TEST_CASE("the simulation is the closed form within its confidence, in 100 random cases") {
  std::mt19937_64 random(7);
  int beyond_two = 0;
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    Cycle cycle;
    cycle.work = log_uniform(random, 1e5, 3e6), cycle.interval = log_uniform(random, 600, 20000);
    cycle.stall = log_uniform(random, 1, 300);
    cycle.save = i % 2 ? cycle.stall : std::min(cycle.stall + cycle.interval * .9, cycle.stall * 10);
    cycle.down = log_uniform(random, 60, 3600);
    Fleet fleet;
    fleet.nodes = 1 + static_cast<std::int64_t>(uniform(random, 0, 2000));
    const double all = 1 / log_uniform(random, 5000, 200000);
    fleet.group_nodes = i % 3 == 0 ? 16 : 0;
    fleet.group_rate = i % 3 == 0 ? all / 4 / std::ceil(double(fleet.nodes) / 16) : 0;
    fleet.node_rate = (i % 3 == 0 ? .75 : 1) * all / double(fleet.nodes);
    cycle.failures = failures_of(fleet);
    CHECK(cycle.failures == doctest::Approx(all));
    const auto runs = simulate(cycle, fleet, std::uint64_t(i), 400);
    const double off = std::abs(runs.mean - expected(cycle)) / runs.error;
    CHECK(off < 4);  // once in 16,000 by chance
    beyond_two += off > 2;
  }
  CHECK(beyond_two <= 12);  // 4.6 are expected
}

TEST_CASE("without a spare a run waits for repairs, or goes on with fewer replicas") {
  const Cycle cycle{.work = 2e6, .interval = 3600, .stall = 30, .save = 30, .down = 600, .failures = 0};
  Fleet fleet{.nodes = 64, .node_rate = 1. / (64 * 40000.), .restart = 300, .repair = 20000, .spares = 0};
  const auto enough =
      simulate(cycle, {.nodes = 64, .node_rate = fleet.node_rate, .restart = 300, .repair = 20000}, 1, 200);
  const auto waits = simulate(cycle, fleet, 1, 200);
  // Every failure waits for its own repair.
  CHECK(waits.waited == doctest::Approx(waits.failures * 20000).epsilon(.02));
  CHECK(waits.mean > enough.mean + .9 * waits.waited);
  fleet.replicas = 16, fleet.replicas_per_node = 1;
  const auto shrinks = simulate(cycle, fleet, 1, 200);
  CHECK(shrinks.waited == 0);
  CHECK(shrinks.shrunk > 0);
  CHECK(shrinks.mean < waits.mean);
  CHECK(shrinks.mean > enough.mean);
  fleet.replicas = 0, fleet.spares = 4;
  const auto spares = simulate(cycle, fleet, 1, 200);
  CHECK(spares.mean < waits.mean);
  CHECK(spares.mean >= enough.mean * .98);
}

TEST_CASE("a group that fails takes all its nodes out of the spares") {
  const Cycle cycle{.work = 1e6, .interval = 3600, .stall = 30, .save = 30, .down = 600, .failures = 0};
  Fleet fleet{.nodes = 64,
              .node_rate = 0,
              .group_nodes = 8,
              .group_rate = 1. / (8 * 100000.),
              .restart = 300,
              .repair = 50000,
              .spares = 8};
  const auto rack = simulate(cycle, fleet, 3, 200);
  fleet.spares = 4;
  CHECK(simulate(cycle, fleet, 3, 200).waited > rack.waited);
  CHECK(rack.failures == doctest::Approx(rack.mean / 100000).epsilon(.15));
}

TEST_CASE("a slow node slows the run until it is noticed") {
  // Noticed at once it costs restarts; never noticed, the whole rest at half speed.
  const Cycle cycle{.work = 1e6, .interval = 3600, .stall = 30, .save = 30, .down = 600, .failures = 0};
  Fleet fleet{.nodes = 10, .slow_rate = 1e-6, .slowdown = 2, .notice = 1e12, .restart = 300};
  const auto never = simulate(cycle, fleet, 5, 400);
  // First at an exponential time of mean 1e5 s: work 1e6 = t + (T - t) / 2 with checkpoints besides.
  CHECK(never.mean == doctest::Approx((2e6 - 1e5) * (1 + 30. / 3600 / 2)).epsilon(.02));
  fleet.notice = 3600;
  const auto soon = simulate(cycle, fleet, 5, 400);
  CHECK(soon.mean < never.mean / 1.5);
  CHECK(soon.slow == doctest::Approx(soon.mean * 1e-5 * 3600).epsilon(.15));
}

TEST_CASE("the same seed gives the same runs, another seed others") {
  const Cycle cycle{.work = 1e6, .interval = 3600, .stall = 30, .save = 30, .down = 600, .failures = 0};
  const Fleet fleet{.nodes = 8, .node_rate = 1e-6};
  CHECK(simulate(cycle, fleet, 1, 20).mean == simulate(cycle, fleet, 1, 20).mean);
  CHECK(simulate(cycle, fleet, 1, 20).mean != simulate(cycle, fleet, 2, 20).mean);
}

TEST_CASE("nodes that become slow all the time are walked once for each that is noticed") {
  // A million a second, noticed after an hour: the run stops about once an hour, and no more happens than that.
  const Cycle cycle{.work = 1e6, .interval = 3600, .stall = 30, .save = 30, .down = 600, .failures = 0};
  const Fleet fleet{.nodes = 1000, .slow_rate = 1e3, .slowdown = 1.5, .notice = 3600, .restart = 300};
  const auto runs = simulate(cycle, fleet, 1, 50);
  CHECK(runs.slow == doctest::Approx(runs.mean).epsilon(.01));
  CHECK(runs.mean > 1.5e6);
}
