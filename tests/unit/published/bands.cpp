// Bands from published runs, solved by hand.
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
    return text.find(fmt::format("low: {:.3f}\n    high: {:.3f}\n", std::exp(low), std::exp(high))) !=
           std::string::npos;
  };
  CHECK(has(bands_yaml(all), -.3, .3));
  const auto wide = bands_yaml(all, {{name, .4}});
  CHECK(has(wide.substr(0, wide.find("all:")), -.5, .5));
  // The band of all holds that of each class.
  CHECK(has(wide.substr(wide.find("all:")), -.5, .5));
}

TEST_CASE("a wider class holds the narrower ones, and mixtures of experts are none of the dense") {
  // Eight like each other, slow; twenty of other layouts as predicted; two mixtures twice as slow.
  auto all = runs("f", {1.5, 1.5, 1.5, 1.5, 1.6, 1.6, 1.6, 1.6});
  for (int i = 0; i < 20; ++i) all.push_back(run("g", 1)), all.back().kind.layout = fmt::format("l{}", i);
  for (int i = 0; i < 2; ++i) all.push_back(run("m", 2)), all.back().kind.experts = true;
  const auto text = bands_yaml(all);
  const auto section = [&](const char* name) { return text.substr(text.find(name)); };
  CHECK(section("all:").find("low: 1.000\n    high: 1.600\n") != std::string::npos);
  CHECK(section("experts:").find("low: 1.000\n    high: 2.000\n") != std::string::npos);
  CHECK(text.find("high: 2.000") == text.rfind("high: 2.000"));
  CHECK(section("all:").find("28 published runs of dense models, of 2 families") != std::string::npos);
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
