// Checkpoints in memory beside those in storage: solved by hand, beside the formulas of the literature and beside
// simulated runs.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "job/goodput.hpp"
#include "job/whole_run.hpp"

using namespace rehearsal;
using namespace rehearsal::job;

namespace {

double spread_over(std::mt19937_64& random, double low, double high) {
  return low * std::exp(std::log(high / low) * double(random() >> 11) * 0x1p-53);
}

// Processes, nodes and groups fail; memory of the own node and of another one, then the storage.
struct Case {
  Fleet fleet;
  Cycle cycle;
};
Case tiers_drawn(std::mt19937_64& random, bool async, std::size_t tiers) {
  Case c;
  const double all = 1 / spread_over(random, 5000, 100000);
  c.fleet.nodes = 64, c.fleet.group_nodes = 8;
  c.fleet.node_rate = .8 * all / 64, c.fleet.group_rate = .2 * all / 8, c.fleet.process_share = .5;
  const auto rates = failures_by_scope(c.fleet);
  c.cycle.work = spread_over(random, 1e5, 1e6);
  c.cycle.stall = spread_over(random, 5, 100), c.cycle.save = c.cycle.stall * (async ? 4 : 1);
  c.cycle.down = spread_over(random, 300, 1500), c.cycle.failures = failures_of(c.fleet);
  const double host = spread_over(random, .5, 5), peer = host * spread_over(random, 1, 4);
  if (tiers > 0) c.cycle.nearer.push_back({0, host, host, c.cycle.down / 4, Scope::process, rates[0]});
  if (tiers > 1) c.cycle.nearer.push_back({0, peer, peer * (async ? 3 : 1), c.cycle.down / 2, Scope::node, rates[1]});
  return c;
}

}  // namespace

// 200 s of work, a checkpoint in memory after 100, none of which takes any time; every 100 s something fails, of which
// four in ten lose the memory. The first 100 s take (e - 1) 100 = 171.8 s. The others take X: of 1 - 1/e runs that
// fail, .6 begin them anew and .4 all of it, so that X = (e - 1) (100 + .4 x 171.8) = 289.9 s.
TEST_CASE("two tiers, solved by hand") {
  const double e = std::exp(1.), first = 100 * (e - 1), second = (e - 1) * (100 + .4 * first);
  Cycle cycle{.work = 200, .interval = 200, .failures = .01};
  cycle.nearer = {{.interval = 100, .failures = .006}};
  CHECK(first + second == doctest::Approx(461.756).epsilon(1e-6));
  CHECK(expected(cycle) == doctest::Approx(first + second).epsilon(1e-12));
  // Where the memory survives everything, 100 s are all that is lost; where nothing, all is.
  cycle.nearer.front().failures = .01;
  CHECK(expected(cycle) == doctest::Approx(2 * first).epsilon(1e-12));
  cycle.nearer.front().failures = 0;
  CHECK(expected(cycle) == doctest::Approx(100 * std::expm1(2.)).epsilon(1e-12));
}

TEST_CASE("without a nearer tier, pieces add up to the closed form") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    auto cycle = tiers_drawn(random, i % 2, 0).cycle;
    cycle.interval = spread_over(random, 500, 20000);
    CHECK(expected_in_tiers(cycle) == doctest::Approx(expected(cycle)).epsilon(1e-9));
  }
}

TEST_CASE("simulated runs take what pieces add up to, and lose as much") {
  std::mt19937_64 random(11);
  int beyond_two = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    auto [fleet, cycle] = tiers_drawn(random, i % 3 == 0, 1 + i % 2);
    cycle = with_intervals(cycle, 1);
    if (cycle.nearer.empty()) continue;
    const auto runs = simulate(cycle, fleet, std::uint64_t(i), 300);
    const double off = std::abs(runs.mean - expected(cycle)) / runs.error;
    CHECK(off < 4);
    beyond_two += off > 2;
    double lost = 0, others = cycle.failures;
    for (std::size_t t = 0; t < cycle.nearer.size(); ++t)
      lost += cycle.nearer[t].failures * lost_work(cycle, t), others -= cycle.nearer[t].failures;
    lost += others * lost_work(cycle, cycle.nearer.size());
    CHECK(runs.lost / runs.failures == doctest::Approx(lost / cycle.failures).epsilon(.15));
  }
  CHECK(beyond_two <= 8);
}

// Each tier has its own optimum and its own loss, sqrt(2 C lambda), where failures are rare (Di et al., IEEE TPDS 28
// (2017) 244; Benoit et al., IEEE TC 66 (2017) 1212).
TEST_CASE("first order: the loss of tiers is the sum of their losses") {
  Cycle cycle{.work = 1e9, .stall = 50, .save = 50, .failures = 3e-6};
  cycle.nearer = {{.stall = .5, .save = .5, .failures = 2.9e-6}};
  const auto best = with_intervals(cycle, 1);
  CHECK(best.nearer.at(0).interval == doctest::Approx(std::sqrt(2 * .5 / 2.9e-6)).epsilon(.05));
  CHECK(best.interval == doctest::Approx(std::sqrt(2 * 50 / 1e-7)).epsilon(.05));
  const double loss = std::sqrt(2 * .5 * 2.9e-6) + std::sqrt(2 * 50 * 1e-7);
  CHECK(expected(best) / cycle.work - 1 == doctest::Approx(loss).epsilon(.03));
}

TEST_CASE("at the best intervals a further tier is never worse, and no other interval is much better") {
  std::mt19937_64 random(19);
  int better = 0;
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    const auto two = tiers_drawn(random, i % 3 == 0, 2).cycle;
    auto one = two, none = two;
    one.nearer.pop_back(), none.nearer.clear();
    const auto best = with_intervals(two, 1);
    const double of_two = expected(best), of_one = expected(with_intervals(one, 1)),
                 of_none = expected(with_intervals(none, 1));
    CHECK(of_two <= of_one);
    CHECK(of_one <= of_none);
    better += of_two < .999 * of_none;
    for (const double factor : {.5, .7, 1.4, 2.}) {
      auto other = best;
      for (auto& tier : other.nearer) tier.interval *= factor;
      other.interval *= factor;
      CHECK(expected(other) > .999 * of_two);
    }
  }
  CHECK(better > 20);
}

// One copy of 1 TB on 64 GPUs: 15.625 GB each, in 1 s to its host, in 2 s to another node, in 10 s to the storage.
TEST_CASE("a training says from where it restarts, and what a failure costs") {
  Step step;
  step.seconds = 10, step.sequences = 512, step.tokens = 1e6, step.gpus = 64, step.nodes = 8, step.gpus_per_node = 8;
  step.state_bytes = 1e12, step.to_host = 15.625e9, step.to_peer = 7.8125e9, step.host_memory = 1e12;
  Job job;
  job.steps = Count(1e6), job.failures = Failures{.per_1000_node_days = 1000};
  job.failures->restart = Duration(100), job.failures->detect = Duration(20);
  const auto storage = whole_run(job, step);
  CHECK(storage.kept.empty());
  CHECK(storage.interruptions.empty());
  job.failures->process_share = .75;
  CHECK(whole_run(job, step).expected == storage.expected);  // all go back to the storage

  job.checkpoint.host.emplace().restart = Duration(30), job.checkpoint.peer.emplace();
  const auto run = whole_run(job, step);
  REQUIRE(run.kept.size() == 3);
  CHECK(run.kept[0].stall_s == doctest::Approx(1));
  CHECK(run.kept[1].stall_s == doctest::Approx(2));
  CHECK(run.kept[2].stall_s == doctest::Approx(10));
  CHECK(run.kept[0].down_s == doctest::Approx(20 + 30 + 1));
  CHECK(run.kept[1].down_s == doctest::Approx(20 + 100 + 2));
  CHECK(run.expected.goodput > storage.expected.goodput);
  REQUIRE(run.interruptions.size() == 2);
  CHECK(run.interruptions[0].from == "host");
  CHECK(run.interruptions[1].from == "peer");
  CHECK(run.interruptions[0].failures == doctest::Approx(.75 * run.failures));
  // About half of the interval between checkpoints.
  for (std::size_t t = 0; t < 2; ++t)
    CHECK(run.interruptions[t].lost_s == doctest::Approx(run.kept[t].interval_s / 2).epsilon(.1));
  CHECK(run.warnings.empty());
  // Two of a tier take 2 x 1 TB / 8 of each node.
  step.host_memory = 4e11;
  CHECK(whole_run(job, step).warnings.size() == 1);
  // Copies that are sent behind the steps stop them as long as those to the own host.
  job.checkpoint.peer->async = true;
  CHECK(whole_run(job, step).kept[1].stall_s == doctest::Approx(1));
  CHECK(whole_run(job, step).kept[1].save_s == doctest::Approx(2));
}
