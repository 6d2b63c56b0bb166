// What follows from the ZeRO level, overlap, offload and the optimizer, for the ranks that hold the same parameters.
#include "plan/state_policy.hpp"

#include <doctest/doctest.h>

#include "plan/plan.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using Gather = StatePolicy::Gather;
using Reduce = StatePolicy::Reduce;
using Update = StatePolicy::Update;

namespace {

Plan of(int zero, bool overlaps, std::int64_t data = 4) {
  Plan plan;
  plan.job.parallelism.data = data, plan.job.parallelism.zero = zero;
  plan.job.framework.gradient_overlap = overlaps ? models::GradientOverlap::always : models::GradientOverlap::never;
  return plan;
}

}  // namespace

TEST_CASE("ZeRO shards one state more at each level, and what is a shard is gathered") {
  const Gather gathers[] = {Gather::never, Gather::behind_update, Gather::behind_update, Gather::per_part};
  for (int zero = 0; zero < 4; ++zero) {
    CAPTURE(zero);
    const auto policy = state_policy(of(zero, false)), overlapped = state_policy(of(zero, true));
    CHECK(policy.shards_optimizer == (zero >= 1));
    CHECK(policy.shards_gradients == (zero >= 2));
    CHECK(policy.shards_parameters == (zero == 3));
    CHECK(policy.sums_to_shards == (zero >= 1));
    CHECK(policy.gather == gathers[zero]);
    CHECK(policy.gathers_updated() == (zero == 1 || zero == 2));
    CHECK(policy.reduce == (zero >= 2 ? Reduce::per_part : Reduce::at_end));
    CHECK(overlapped.reduce == (zero >= 2 ? Reduce::per_part : Reduce::under_backward));
    CHECK(policy.update == Update::device);
    CHECK(overlapped.prefetch == (zero == 3 ? 1 : 0));
    CHECK(policy.prefetch == 0);
    CHECK(passes_in_parts(of(zero, false)) == (zero >= 2));
  }
}

TEST_CASE("a stage of a pipeline sums whole gradients with ZeRO-2, and reduces them once") {
  for (int zero = 0; zero < 4; ++zero) {
    auto plan = of(zero, true);
    plan.job.microbatches = 8;
    CHECK_FALSE(state_policy(plan).reduces_last);
    plan.job.parallelism.pipeline = 2;
    CHECK(state_policy(plan).reduces_last == (zero == 2));
    plan.job.training.defragment = true;  // where memory lies says nothing of when gradients are reduced
    CHECK(state_policy(plan).reduces_last == (zero == 2));
    plan.job.microbatches = 1;
    CHECK_FALSE(state_policy(plan).reduces_last);
  }
}

TEST_CASE("alone a GPU shares nothing, whatever the level") {
  for (int zero = 0; zero < 4; ++zero) {
    const auto policy = state_policy(of(zero, true, 1));
    CHECK_FALSE(policy.shards_optimizer);
    CHECK(policy.gather == Gather::never);
    CHECK(policy.reduce == Reduce::at_end);
  }
}

TEST_CASE("updated parameters are gathered under the next forward where the framework or the scenario says so") {
  auto plan = of(1, true);
  plan.job.framework.gather_overlap = true;
  CHECK(state_policy(plan).gather == Gather::under_forward);
  plan.job.training.overlap_gathers = false;
  CHECK(state_policy(plan).gather == Gather::behind_update);
  plan.job.framework.zero1_reduces = models::Zero1Reduces::all;
  CHECK_FALSE(state_policy(plan).sums_to_shards);
}

TEST_CASE("states beyond the device come and go part by part, and the host updates") {
  auto plan = of(0, false, 1);
  plan.job.training.offload = {.optimizer = Tier::host, .gradients = Tier::host, .parameters = Tier::host};
  const auto policy = state_policy(plan);
  CHECK(policy.gather == Gather::per_part);
  CHECK(policy.reduce == Reduce::per_part);
  CHECK(policy.update == Update::host);
  CHECK_FALSE(policy.shards_parameters);
}

TEST_CASE("servers update, or nobody but the backward does") {
  auto plan = of(0, true);
  plan.job.data_parallel.kind = DataParallel::Kind::parameter_server;
  CHECK(state_policy(plan).update == Update::server);
  CHECK(state_policy(plan).reduce == Reduce::under_backward);
  plan.job.data_parallel.update = DataParallel::Update::worker;
  CHECK(state_policy(plan).update == Update::device);
  auto inside = of(3, true);
  inside.job.training.optimizer = &models::optimizer("lomo");
  CHECK(state_policy(inside).update == Update::in_backward);
  CHECK_FALSE(state_policy(inside).reduces_beside);
}
