// Distribution of tokens over the GPUs of an expert group, by hand.
#include "plan/routing.hpp"

#include <doctest/doctest.h>

using namespace rehearsal;
using plan::routing;

namespace {

plan::Job job(std::int64_t expert) {
  plan::Job job;
  job.model.family = models::Family::moe;
  job.model.experts = 4, job.model.experts_per_token = 2;
  job.parallelism.expert = expert;
  return job;
}

}  // namespace

TEST_CASE("even routing loads every GPU alike") {
  CHECK(routing(job(2)).load == 1);
  CHECK(routing(job(2)).kept == 1);
  CHECK(routing(job(2)).waits);
}

TEST_CASE("Zipf: the GPU with the busiest experts has more rows than the mean") {
  auto j = job(2);
  j.experts.skew.kind = models::Skew::Kind::zipf, j.experts.skew.zipf = 1;
  // 1, 1/2, 1/3, 1/4: 3/2 of 25/12 stand on the first of two GPUs.
  CHECK(routing(j).load == doctest::Approx(1.5 / (25. / 24)));
  j.parallelism.expert = 4;
  const auto routed = routing(j);
  CHECK(routed.load == doctest::Approx(1 / (25. / 48)));
  REQUIRE(routed.loads.size() == 4);
  for (std::size_t r = 0; r < 4; ++r) CHECK(routed.loads[r] == doctest::Approx(1. / double(r + 1) / (25. / 48)));
  j.parallelism.expert = 1;
  CHECK(routing(j).load == 1);
}

TEST_CASE(
    "natural routing: the busiest expert has 1.62 of the mean, its rank less, and no more than there are tokens") {
  auto j = job(4);
  j.experts.skew.kind = models::Skew::Kind::natural;
  // One expert a rank: that of the busiest expert.
  CHECK(routing(j).load == doctest::Approx(1.62));
  j.parallelism.expert = 2;
  CHECK(routing(j).load > 1);
  CHECK(routing(j).load < 1.62);
  j.parallelism.expert = 1;
  CHECK(routing(j).load == 1);
  // A token sees 3 of 4 experts: none can have more than 4/3 of the mean.
  j.parallelism.expert = 4, j.model.experts_per_token = 3;
  CHECK(routing(j).load == doctest::Approx(4. / 3));
}

TEST_CASE("a capacity cuts the busiest experts and drops what is above") {
  auto j = job(2);
  j.experts.skew.kind = models::Skew::Kind::loads, j.experts.skew.loads = {5, 1, 1, 1};
  j.experts.capacity = 1.25;
  // Over the mean: 2.5, .5, .5, .5; of the first 1.25 stay: 2.75 of 4, and 1.75 on the first GPU.
  const auto routed = routing(j);
  CHECK(!routed.waits);
  CHECK(routed.kept == doctest::Approx(2.75 / 4));
  CHECK(routed.load == doctest::Approx(1.75 / 2));
  REQUIRE(routed.loads.size() == 2);
  CHECK(routed.loads[1] == doctest::Approx(1. / 2));
}

TEST_CASE("placed by their loads, with a replica of the busiest, experts are evener") {
  auto j = job(2);
  j.experts.skew.kind = models::Skew::Kind::loads, j.experts.skew.loads = {3, 3, 1, 1};
  CHECK(routing(j).load == doctest::Approx(6. / 4));
  j.experts.balance = models::ExpertBalance::best;
  CHECK(routing(j).load == doctest::Approx(1));
  j.experts.skew.loads = {5, 1, 1, 1};
  CHECK(routing(j).load == doctest::Approx(6. / 4));
  j.experts.redundant = 2;  // three slots each: 2.5 + 1 + ... on either
  CHECK(routing(j).load < 1.2);
}

TEST_CASE("over a trace the mean of its steps counts, and a new placement helps") {
  auto j = job(2);
  j.experts.skew.kind = models::Skew::Kind::trace;
  j.experts.skew.trace = {{{3, 3, 1, 1}}, {{1, 3, 3, 1}}, {{1, 3, 3, 1}}, {{1, 3, 3, 1}}};
  CHECK(routing(j).load == doctest::Approx((1.5 + 1 + 1 + 1) / 4));
  CHECK(routing(j).loads[1] == doctest::Approx((.5 + 1 + 1 + 1) / 4));
  j.experts.balance = models::ExpertBalance::best;
  const double kept = routing(j).load;
  j.experts.every = 1;
  CHECK(routing(j).load <= kept);
}

TEST_CASE("who sends decides how often a token goes") {
  auto j = job(2);
  CHECK(!routing(j).two_hop);
  j.framework.dispatcher = models::Dispatcher::deepep;
  j.experts.limit_nodes = 4;
  CHECK(routing(j).two_hop);
  CHECK(routing(j).most_domains == 4);
}
