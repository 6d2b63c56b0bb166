// Balanced partitions: solved by hand, and against all partitions of small models.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

#include "base/error.hpp"
#include "plan/partition.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

using Layers = std::vector<std::int64_t>;

PartTimes alike(std::int64_t layers, std::int64_t layer, std::int64_t embedding, std::int64_t head) {
  PartTimes t{Time(embedding), Time(head), {}, true};
  for (std::int64_t l = 0; l <= layers; l++) t.layers.push_back(Time(l * layer));
  return t;
}

std::vector<std::int64_t> stage_times(const PartTimes& t, const Layers& part) {
  std::vector<std::int64_t> times;
  for (std::size_t s = 0; s < part.size(); s++)
    times.push_back(t.layers[std::size_t(part[s])].count() + (s == 0 ? t.embedding.count() : 0) +
                    (s + 1 == part.size() ? t.head.count() : 0));
  return times;
}

// What deal_balanced minimises, in this order: slowest stage, sum of squares, the list itself.
using Score = std::tuple<std::int64_t, std::int64_t, Layers>;
Score score(const PartTimes& t, const Layers& part) {
  const auto times = stage_times(t, part);
  return {*std::max_element(times.begin(), times.end()),
          std::inner_product(times.begin(), times.end(), times.begin(), std::int64_t{0}), part};
}

Layers by_trying(const PartTimes& t, std::int64_t stages) {
  std::optional<Score> best;
  Layers part;
  const std::function<void(std::int64_t)> deal = [&](std::int64_t left) {
    const auto s = std::int64_t(part.size());
    if (s == stages) {
      if (left == 0 && (!best || score(t, part) < *best)) best = score(t, part);
      return;
    }
    const bool may_be_empty = (s == 0 && t.first_may_be_empty) || (s > 0 && s + 1 == stages);
    for (std::int64_t n = may_be_empty ? 0 : 1; n <= left; n++) {
      part.push_back(n);
      deal(left - n);
      part.pop_back();
    }
  };
  deal(std::int64_t(t.layers.size()) - 1);
  REQUIRE(best);
  return std::get<Layers>(*best);
}

}  // namespace

TEST_CASE("ends that cost as much as a layer take a layer's place") {
  CHECK(deal_balanced(alike(30, 10, 10, 10), 4) == Layers{7, 8, 8, 7});
  // A head of three layers: 30 + 3 = 33 units over 4 stages, at most 9 a stage and the last holds 6 + 3.
  CHECK(deal_balanced(alike(30, 10, 0, 30), 4) == Layers{8, 8, 8, 6});
  CHECK(deal_balanced(alike(8, 10, 0, 0), 4) == Layers{2, 2, 2, 2});
  CHECK(deal_balanced(alike(8, 10, 5, 7), 1) == Layers{8});
}

TEST_CASE("an end that outweighs everything has a stage of its own") {
  CHECK(deal_balanced(alike(6, 10, 0, 100), 3) == Layers{3, 3, 0});
  CHECK(deal_balanced(alike(6, 10, 100, 0), 3) == Layers{0, 3, 3});
  auto mlp = alike(6, 10, 100, 0);
  mlp.first_may_be_empty = false;
  CHECK(deal_balanced(mlp, 3) == Layers{1, 2, 3});
}

TEST_CASE("of equals the one with fewer layers in front") {
  CHECK(deal_balanced(alike(5, 10, 0, 0), 2) == Layers{2, 3});
  CHECK(deal_balanced(alike(7, 10, 0, 0), 3) == Layers{2, 2, 3});
}

TEST_CASE("too few layers are refused, as by `uniform`") {
  CHECK(deal_balanced(alike(2, 10, 1, 1), 4) == Layers{0, 1, 1, 0});
  CHECK_THROWS_AS(deal_balanced(alike(2, 10, 1, 1), 5), UserError);
  auto mlp = alike(3, 10, 0, 1);
  mlp.first_may_be_empty = false;
  CHECK(deal_balanced(mlp, 4) == Layers{1, 1, 1, 0});
}

TEST_CASE("as good as every other way to deal the layers") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; round++) {
    CAPTURE(round);
    const auto pick = [&](std::int64_t below) { return std::int64_t(random() % std::uint64_t(below)); };
    const std::int64_t layers = 1 + pick(9), stages = 1 + pick(std::min<std::int64_t>(5, layers + 1));
    PartTimes t{Time(pick(30)), Time(pick(30)), {Time{}}, true};
    for (std::int64_t l = 0; l < layers; l++)
      t.layers.push_back(t.layers.back() + Time(1 + pick(12)));  // unequal layers
    CHECK(deal_balanced(t, stages) == by_trying(t, stages));
  }
}
