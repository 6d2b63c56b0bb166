// Trainings whose steps are not all alike, and what lies between steps, added up by hand.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "job/whole_run.hpp"

using namespace rehearsal;
using namespace rehearsal::job;

namespace {

// 10 s for 512 sequences of 2,000 tokens, and 30 s for 64 of 16,000: 1.024 M tokens each.
Step two_kinds() {
  Step s;
  s.seconds = 10, s.low = .9, s.high = 1.2, s.sequences = 512, s.tokens = 1.024e6;
  s.gpus = 64, s.nodes = 8, s.gpus_per_node = 8, s.state_bytes = 1e12;
  s.phases = {s, s};
  auto& longer = s.phases.back();
  longer.seconds = 30, longer.low = .8, longer.high = 1.5, longer.sequences = 64;
  return s;
}
Step one_kind() {
  auto s = two_kinds();
  s.phases.clear();
  return s;
}

Job of_tokens(double tokens, const Phase& first, const Phase& second) {
  Job job;
  job.tokens = Count(tokens), job.phases = {first, second};
  return job;
}

}  // namespace

// 1,000 steps' worth of tokens, a tenth of it long: 900 steps of 10 s and 100 of 30 s are 12,000 s. The band is theirs,
// by time: (9,000 x .9 + 3,000 x .8) / 12,000 = .875 and (9,000 x 1.2 + 3,000 x 1.5) / 12,000 = 1.275.
TEST_CASE("phases of a training, each with steps of its own") {
  for (const auto& job : {of_tokens(1.024e9, {}, {.share = .1}), of_tokens(1.024e9, {.steps = Count(900)}, {}),
                          of_tokens(1.024e9, {.tokens = Count(900 * 1.024e6)}, {.samples = Count(6400)})}) {
    const auto run = whole_run(job, two_kinds());
    CHECK(run.steps == 1000);
    REQUIRE(run.phases.size() == 2);
    CHECK(run.phases[0].steps == 900);
    CHECK(run.phases[1].steps == 100);
    CHECK(run.phases[1].days() == doctest::Approx(3000. / 86400));
    CHECK(run.expected.days == doctest::Approx(12000. / 86400));
    CHECK(run.expected.goodput == 1);
    CHECK(run.low->days == doctest::Approx(.875 * 12000 / 86400));
    CHECK(run.high->days == doctest::Approx(1.275 * 12000 / 86400));
  }
}

TEST_CASE("phases say how much in all, or the job does") {
  auto job = of_tokens(0, {.steps = Count(10)}, {.steps = Count(20)});
  job.tokens.reset();
  CHECK(whole_run(job, two_kinds()).steps == 30);
  CHECK_THROWS_WITH_AS(whole_run(of_tokens(1.024e9, {.share = .5}, {.share = .2}), two_kinds()),
                       doctest::Contains("are 70.0 % of what the job trains"), UserError);
  CHECK_THROWS_WITH_AS(whole_run(of_tokens(1.024e9, {.steps = Count(1000)}, {}), two_kinds()),
                       doctest::Contains("leave nothing to phase 2"), UserError);
}

// 8,640 steps of 10 s are a day; 8 evaluations of 12 min are 5,760 s, so that 86,400 of 92,160 s train: 93.75 %.
TEST_CASE("evaluations lie between steps") {
  Job job;
  job.steps = Count(8640), job.evaluation = Evaluation{.every = 1000, .time = Duration(720)};
  const auto run = whole_run(job, one_kind());
  CHECK(run.evaluations == 8);
  CHECK(run.expected.days == doctest::Approx(92160. / 86400));
  CHECK(run.expected.goodput == doctest::Approx(.9375));
  CHECK(run.high->days == doctest::Approx((1.2 * 86400 + 5760) / 86400));
  // Of 30 steps whose forward pass is a quarter of them: 30 x 10 s / 4.
  auto step = one_kind();
  step.forward = .25, job.evaluation = Evaluation{.every = 1000, .steps = 30};
  CHECK(whole_run(job, step).evaluation_s == doctest::Approx(75));
}

// Every 11 h a stop of 2 h: a day of steps is 9 h, 9 h and 6 h of them, with two stops between.
TEST_CASE("planned stops lose their time and nothing else") {
  Job job;
  job.steps = Count(8640), job.stops = {{.time = Duration(7200), .every = Duration(39600)}};
  CHECK(whole_run(job, one_kind()).stops == 2);
  CHECK(whole_run(job, one_kind()).expected.days == doctest::Approx(28. / 24));
  job.stops.push_back({.time = Duration(3600), .times = 3});
  CHECK(whole_run(job, one_kind()).stopped_s == doctest::Approx(7 * 3600));
  CHECK(whole_run(job, one_kind()).expected.days == doctest::Approx(31. / 24));

  job.failures = Failures{.per_1000_node_days = 20};
  const auto stopped = whole_run(job, one_kind());
  job.stops.clear();
  const auto running = whole_run(job, one_kind());
  CHECK(stopped.expected.days - running.expected.days == doctest::Approx(stopped.stopped_s / 86400));
  CHECK(stopped.failures == running.failures);
}

// An evaluation is repeated when it fails, as a step is: the same as a job whose steps are longer by their share of it.
TEST_CASE("evaluations fail as steps do") {
  Job job, longer;
  job.steps = longer.steps = Count(8000), job.failures = longer.failures = Failures{.per_1000_node_days = 500};
  job.checkpoint.interval = longer.checkpoint.interval = Duration(1e4);
  job.evaluation = Evaluation{.every = 10, .time = Duration(10)};
  auto step = one_kind();
  step.low = step.high = std::nullopt;
  auto as_long = step;
  as_long.seconds = 11;
  const auto with = whole_run(job, step), same = whole_run(longer, as_long);
  CHECK(with.expected.days == doctest::Approx(same.expected.days).epsilon(1e-3));
  CHECK(with.expected.goodput == doctest::Approx(same.expected.goodput * 10 / 11).epsilon(1e-3));
}
