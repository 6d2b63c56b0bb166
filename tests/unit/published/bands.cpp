// Bands from published runs, solved by hand.
#include "published/bands.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace rehearsal;
using namespace rehearsal::published;

namespace {

// Measured `ln` above the prediction, with all forecasts as the prediction.
Prediction run(const std::string& table, double ln, bool eager = false) {
  Prediction p;
  p.run.table = table, p.run.iteration_s = std::exp(ln);
  p.family = table + "@h100/f", p.iteration_s = 1;
  for (auto& forecast : p.forecasts) forecast.seconds = 1;
  p.kind = {"h100-x", "s-2021", "flash", "none", "16-bit", "data", "none", 2048, 1e9, 8};
  p.kind.eager = eager;
  return p;
}

// Ten runs of a table, evenly from `low` to `high`, in ln.
void add_table(std::vector<Prediction>& all, const std::string& name, double low, double high, bool eager = false) {
  for (int i = 0; i < 10; i++) all.push_back(run(name, low + (high - low) * i / 9, eager));
}

}  // namespace

TEST_CASE("a tenth lies beyond a band on either side, by feature") {
  std::vector<Prediction> all;
  for (int t = 0; t < 9; t++) {
    add_table(all, "d" + std::to_string(t), -.09, .18);
    add_table(all, "e" + std::to_string(t), -.09, .72, true);
  }
  const auto model = fit_bands(all);
  const auto dense = model.of_features(all.front().kind), eager = model.of_features(all.back().kind);
  // One of ten is .18 above, the next .15; of nine tables the share beyond is .09.
  CHECK(dense.high == doctest::Approx(.18).epsilon(.01));
  CHECK(eager.high == doctest::Approx(.72).epsilon(.01));
  CHECK(dense.low == doctest::Approx(eager.low).epsilon(.35));  // what is below does not depend on what is above
  CHECK(eager.low < .13);
}

TEST_CASE("what is not known of a run widens its band, as forecasts without it do") {
  std::vector<Prediction> all;
  for (int t = 0; t < 9; t++) add_table(all, "d" + std::to_string(t), -.1, .1);
  for (auto& p : all) p.forecasts[static_cast<std::size_t>(Left::gpu)].seconds = std::exp(-.1);  // .2 at most above
  const auto model = fit_bands(all);
  CHECK(model.factor("new_family").high == doctest::Approx(1).epsilon(.01));
  CHECK(model.factor("new_gpu").high == doctest::Approx(2).epsilon(.05));
  CHECK(model.factor("new_gpu").low == 1);  // it never narrows
  const auto known = told(all.front().kind, model);
  CHECK(known.comparable);
  auto other = all.front().kind;
  other.gpu = "h200-y";
  CHECK_FALSE(told(other, model).comparable);
  CHECK(std::log(told(other, model).range.high) == doctest::Approx(.2).epsilon(.06));
  CHECK(std::log(known.range.high) == doctest::Approx(.1).epsilon(.06));
}

TEST_CASE("coverage is that of bands made without a run's family") {
  std::vector<Prediction> all;
  for (int t = 0; t < 9; t++) add_table(all, "d" + std::to_string(t), -.1, .1);
  add_table(all, "far", .4, .5);
  const auto coverages = coverage(all);
  REQUIRE(coverages.front().what == "all");
  CHECK(coverages.front().tables == 10);
  CHECK(coverages.front().inside > .7);
  CHECK(coverages.front().inside <= .9);  // the one that is far lies in no band of the others
}

TEST_CASE("bands in the form of their file") {
  std::vector<Prediction> all;
  add_table(all, "d", -.1, .1);
  const auto text = bands_yaml(all);
  CHECK(text.starts_with("base: {low: "));
  CHECK(text.find("  - {feature: hopper, low: ") != std::string::npos);
  CHECK(text.find("\nruns: |\n") != std::string::npos);
  CHECK(text.find("  h100-x s-2021 flash none 16-bit data none | 2048 2048 | 1e+09 1e+09 | 8 8 | 10 | 10 d\n") !=
        std::string::npos);
}
