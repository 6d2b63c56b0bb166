// Properties of any good placement: one more slot per GPU never hurts, copies cost nothing, and the answer does not
// depend on the number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "balance/registry.hpp"

using namespace rehearsal;

namespace {

balance::Problem random_problem(std::mt19937_64& random) {
  balance::Problem p;
  const std::uint32_t experts = 4 + std::uint32_t(random() % 12);
  p.gpus = 2 + std::uint32_t(random() % 3);
  p.replicas = (experts + p.gpus - 1) / p.gpus * p.gpus;
  p.policy = balance::Policy::global;
  balance::Loads layer(experts);
  for (double& w : layer) w = double(random() % 1000);
  p.weights = {layer};
  return p;
}
}  // namespace

TEST_CASE("the same placement for any number of threads") {
  const auto& best = balance::registry().at("best");
  std::mt19937_64 random(5);
  auto p = random_problem(random);
  for (int l = 0; l < 5; l++) {
    auto layer = p.weights[0];
    std::shuffle(layer.begin(), layer.end(), random);
    p.weights.push_back(layer);
  }
  auto effort = balance::effort_within(seconds(.05));
  const auto one = best.plan(p, effort);
  effort.threads = 3;
  CHECK(best.plan(p, effort).placement.phy2log == one.placement.phy2log);
}
