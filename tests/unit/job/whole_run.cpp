// Days, money, energy and carbon of a training, added up by hand.
#include "job/whole_run.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "job/throughput_model.hpp"

using namespace rehearsal;
using namespace rehearsal::job;

namespace {
// 64 GPUs on 8 nodes, 10 s for 512 sequences of 2,000 tokens.
Step step() {
  Step s;
  s.seconds = 10, s.low = .9, s.high = 1.2;
  s.sequences = 512, s.tokens = 512 * 2000;
  s.gpus = 64, s.nodes = 8, s.gpus_per_node = 8, s.replicas = 16;
  s.gpu_watts = 400, s.state_bytes = 1e12, s.to_host = 20e9;
  return s;
}
}  // namespace

TEST_CASE("tokens to steps, days, GPU-hours, money, energy and carbon") {
  Job job;
  job.tokens = Count(1.024e9 * 8.64 - 1);  // 8,640 steps of 1.024 M tokens, one token short of the last
  job.gpu_hour = 2.5, job.currency = "USD", job.carbon = CarbonIntensity(.4);
  job.power.node = Power(1000), job.power.pue = 1.5;
  job.deadline = Duration(2 * 86400.), job.budget = Count(3000);
  const auto run = whole_run(job, step());
  CHECK(run.steps == 8640);
  CHECK(run.expected.days == doctest::Approx(1));  // 86,400 s
  CHECK(run.expected.goodput == 1);
  CHECK(run.expected.gpu_hours == doctest::Approx(64 * 24));
  CHECK(*run.expected.cost == doctest::Approx(64 * 24 * 2.5));  // 3,840 USD
  // (64 x 400 W + 8 x 1,000 W) x 1.5 x 24 h = 33.6 kW x 36 h = 1.2096 MWh; at .4 kg/kWh .48384 t.
  CHECK(*run.expected.energy_mwh == doctest::Approx(1.2096));
  CHECK(*run.expected.carbon_t == doctest::Approx(.48384));
  CHECK(run.low->days == doctest::Approx(.9));
  CHECK(run.high->days == doctest::Approx(1.2));
  CHECK(*run.in_time());
  CHECK_FALSE(*run.in_budget());
  CHECK_FALSE(run.simulated);
}

TEST_CASE("steps and samples say the same as tokens") {
  Job tokens, steps, samples;
  tokens.tokens = Count(1.024e8), steps.steps = Count(100), samples.samples = Count(51200);
  CHECK(whole_run(tokens, step()).steps == 100);
  CHECK(whole_run(steps, step()).steps == 100);
  CHECK(whole_run(samples, step()).steps == 100);
}

TEST_CASE("spares are paid for, failures lengthen the run, checkpoints lie between steps") {
  Job job;
  job.steps = Count(100000), job.gpu_hour = 1, job.currency = "EUR";
  job.failures = Failures{.per_1000_node_days = 20}, job.spares = 1;
  const auto run = whole_run(job, step());
  CHECK(run.spare_gpus == 8);
  CHECK(run.expected.gpu_hours == doctest::Approx(72 * 24 * run.expected.days));
  CHECK(run.expected.goodput < 1);
  CHECK(run.expected.days * run.expected.goodput == doctest::Approx(1e6 / 86400));
  // 8 nodes x 20 per 1,000 node-days = .16 a day.
  CHECK(run.failures == doctest::Approx(.16 * run.expected.days).epsilon(.1));
  // 1 TB at 100 GB/s: 10 s that stop the training; after a failure 5 min + 10 min + 10 s.
  CHECK(run.checkpoint_stall_s == doctest::Approx(10));
  CHECK(run.down_s == doctest::Approx(910));
  CHECK(std::fmod(run.checkpoint_interval_s, 10) == doctest::Approx(0));
  CHECK(run.best_interval);
  CHECK(run.low->days < run.expected.days);
  CHECK(run.high->days > run.expected.days);
  job.checkpoint.async = true;
  // 1 TB over 64 GPUs at 20 GB/s each.
  CHECK(whole_run(job, step()).checkpoint_stall_s == doctest::Approx(1e12 / 64 / 20e9));
  CHECK(whole_run(job, step()).expected.goodput > run.expected.goodput);
}

TEST_CASE("what cannot be answered is refused") {
  Job job;
  job.steps = Count(1000), job.carbon = CarbonIntensity(.4);
  auto unknown = step();
  unknown.gpu_watts = 0;
  CHECK_THROWS_AS(whole_run(job, unknown), UserError);
  job.carbon.reset(), job.failures = Failures{.per_1000_node_days = 1e6, .restart = Duration(86400.)};
  CHECK_THROWS_AS(whole_run(job, step()), UserError);  // it is never up for long enough
  job.failures = Failures{.per_1000_node_days = 1}, job.checkpoint.async = true;
  auto far = step();
  far.to_host = 0;
  CHECK_THROWS_AS(whole_run(job, far), UserError);
}

TEST_CASE("a pace is what the run expects, and never below what it takes at least") {
  Random random(7);
  const auto between = [&](double low, double high) { return low * std::pow(high / low, random.fraction()); };
  int failing = 0, lost = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    auto s = step();
    s.seconds = between(.1, 1000);
    Job job;
    job.steps = Count(std::ceil(between(1, 1e5))), job.gpu_hour = 2, job.currency = "USD";
    if (trial % 4 != 0) {
      job.failures = Failures{.per_1000_node_days = between(1, 1e5)};
      job.failures->restart = Duration(between(1, 5000));
      job.checkpoint.rate = Bandwidth(between(1e9, 1e12)), job.checkpoint.async = trial % 8 >= 4;
      if (trial % 3 == 0) job.checkpoint.interval = Duration(between(10, 1e5));
    }
    CAPTURE(trial);
    const ThroughputModel pace(job, s);
    try {
      const auto expected = pace.expected(s.seconds, 16);
      const auto least = pace.least(s.seconds);
      CHECK(least.days <= expected.days);
      CHECK(*least.cost <= *expected.cost);
      CHECK(pace.least(s.seconds * .99).days < least.days);
      if (trial % 50 == 1) CHECK(whole_run(job, s).expected.days == expected.days);
      failing += job.failures.has_value(), lost += job.failures && least.goodput < .95;
    } catch (const UserError&) {  // hardly trains
    }
  }
  CHECK(failing > 1000);
  CHECK(lost > 300);  // the bound knows of failures
}

TEST_CASE("nodes of parameter servers are paid for as they draw power") {
  Job job;
  job.steps = Count(8640), job.gpu_hour = 2;
  job.power.pue = 1, job.power.node = Power(1000);
  auto s = step();
  s.nodes = 12, s.server_gpus = 32;  // four nodes of servers
  const auto run = whole_run(job, s);
  CHECK(run.expected.gpu_hours == doctest::Approx(96 * 24));
  CHECK(*run.expected.cost == doctest::Approx(96 * 24 * 2));
  CHECK(*run.expected.energy_mwh == doctest::Approx((96 * 400 + 12 * 1000) * 24 * 1e-6));
}

TEST_CASE("more failures than can be walked are refused, and not waited for") {
  Job job;
  job.steps = Count(8640);
  job.failures.emplace();
  job.failures->slow_per_1000_node_days = 1e15, job.failures->notice = Duration(1e-6);
  CHECK_THROWS_AS(whole_run(job, step()), UserError);
}
