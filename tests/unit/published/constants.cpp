// The registry of fitted constants, and forecasts without what a family gave.
#include "published/constants.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "published/bands.hpp"

using namespace rehearsal;
using namespace rehearsal::published;

namespace {

std::vector<Constant> constants(const std::string& text) {
  return read_constants(scenario::MemoryFiles({{"configs/constants.yaml", "constants:\n" + text}}));
}

std::string error(const std::string& text) {
  try {
    constants(text);
  } catch (const UserError& error) {
    return error.diagnostics().front().message;
  }
  return "no error";
}

Prediction prediction(const std::string& family, const std::string& gpu, double predicted, double forecast,
                      double measured) {
  Prediction p;
  p.run.table = family, p.run.iteration_s = measured;
  p.family = family, p.kind.gpu = gpu, p.iteration_s = predicted, p.forecast_s = forecast;
  return p;
}

}  // namespace

TEST_CASE("a family is its publisher, GPU and framework") {
  CHECK(family_of("megatron21_fig11", "a100-80g-sxm", "megatron-2021") == "megatron@a100-80g-sxm/megatron-2021");
  CHECK(family_of("mosaic_mpt_h100", "h100", "fsdp-2023") == "mosaic@h100/fsdp-2023");
}

TEST_CASE("what only a family gave is taken by another route") {
  const auto all = constants(
      "  - {key: framework.a, value: 1, width: 0.1, saw: [f], without: {any: {value: 2, source: s}}}\n"
      "  - {key: framework.b, value: 1, width: 0.1, saw: [f, g], without: {f: {value: 3, source: s}}}\n"
      "  - {key: cluster.gpu.c, gpu: h100, value: 1, width: 0.1, saw: [f], without: {any: {value: 4, source: s}}}\n"
      "  - {key: framework.d, software: x, value: 1, width: 0.1, saw: [f], without: {any: none}}\n");
  const auto f = forecast_of(all, "f", "a100", "y");
  CHECK(f.sets == std::vector<std::string>{"framework.a=2", "framework.b=3"});
  CHECK(f.missing.empty());
  CHECK(forecast_of(all, "f", "h100", "x").sets.size() == 3);
  CHECK(forecast_of(all, "f", "h100", "x").missing == std::vector<std::string>{"framework.d"});
  CHECK(forecast_of(all, "g", "a100", "y").sets.empty());  // other families hold b
  CHECK(forecast_of(all, "h", "h100", "x").sets.empty());
}

TEST_CASE("the registry says what is wrong with it") {
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f], without: {}}\n") ==
        "'a' saw one family and has no route without it");
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f], without: {g: none}}\n").find("'g' is not among") !=
        std::string::npos);
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f], without: {any: maybe}}\n").find("'none'") !=
        std::string::npos);
}

TEST_CASE("families are scored with and without what they gave; bands of others hold their rows or not") {
  std::vector<Prediction> all;
  for (const double measured : {1.0, 1.1, 1.2, 1.3}) all.push_back(prediction("f", "a100-x", 1, 1, measured));
  for (const double measured : {1.1, 1.2}) all.push_back(prediction("g", "a100-y", 1.1, 1, measured));
  all.push_back(prediction("h", "h100", 1, 1, 9));
  const auto families = score_families(all);
  REQUIRE(families.size() == 3);
  CHECK(families[1].mean == doctest::Approx((0. + .1 / 1.2) / 2));
  CHECK(families[1].forecast == doctest::Approx((.1 / 1.1 + .2 / 1.2) / 2));
  // None has five like it, so all others make its band: for f 1.1 to 9, which is three of its four rows; for g 1.0 to
  // 9; for h 1.0 to 1.3, which does not hold it.
  const auto c = coverage(all);
  CHECK(c.families == 3);
  CHECK(c.inside == doctest::Approx((.75 + 1 + 0) / 3));
}
