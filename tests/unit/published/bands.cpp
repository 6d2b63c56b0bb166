// Bands out of published runs, solved by hand.
#include "published/bands.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

using namespace rehearsal;
using namespace rehearsal::published;

namespace {

Prediction run(const char* family, double ratio, double sequence = 2048) {
  Prediction p;
  p.run.table = "t", p.run.iteration_s = ratio;
  p.family = family, p.iteration_s = p.forecast_s = 1;
  p.kind = {"a100-x", "s-2021", "flash", "none", "16-bit", "data", sequence, 1e9, 8};
  return p;
}

std::vector<Prediction> runs(const char* family, std::initializer_list<double> ratios) {
  std::vector<Prediction> all;
  for (const double ratio : ratios) all.push_back(run(family, ratio));
  return all;
}

}  // namespace

TEST_CASE("a band is wider by what constants may be off by, in quadrature, about its middle") {
  // Of nine the first and the last: exp(-.3) to exp(.3). With .4 of constants: sqrt(.09 + .16) = .5 either way.
  std::vector<Prediction> all;
  for (const double ln : {-.3, -.2, -.15, -.1, 0., .1, .15, .2, .3}) all.push_back(run("f", std::exp(ln)));
  const auto name = class_of(all.front().kind);
  const auto has = [&](const std::string& text, double low, double high) {
    return text.find(fmt::format("low: {:.3f}\n    high: {:.3f}\n", std::exp(low), std::exp(high))) != std::string::npos;
  };
  CHECK(has(bands_yaml(all), -.3, .3));
  const auto wide = bands_yaml(all, {{name, .4}});
  CHECK(has(wide.substr(0, wide.find("all:")), -.5, .5));
  // Forecasts have the errors of constants in them: bands of all runs stay.
  CHECK(has(wide.substr(wide.find("all:")), -.3, .3));
}

TEST_CASE("coverage asks for the band that a scenario is told of while its family is unknown") {
  // Eight runs of g are comparable with f's: they fell into 1 to 1.2, two of f's four with them.
  auto all = runs("f", {1.0, 1.1, 1.3, 1.5});
  for (const auto& p : runs("g", {1, 1, 1, 1.1, 1.1, 1.2, 1.2, 1.2})) all.push_back(p);
  const auto c = coverage(all);
  CHECK(c.families == 2);
  CHECK(c.compared == doctest::Approx(.5));  // of g's, four runs of f are too few: it is told of all others
  CHECK(c.inside == doctest::Approx((.5 + 1) / 2));
  // Constants that may be off by half make room for the others: ln 1.2 / 2 = .09, with .5 exp(.09 + .51) = 1.8.
  CHECK(coverage(all, {{class_of(all.front().kind), .5}}).inside == doctest::Approx(1));
  // Sequences four times as long are not comparable.
  for (auto& p : all)
    if (p.family == "f") p.kind.sequence *= 4;
  CHECK(coverage(all).compared == 0);
}
