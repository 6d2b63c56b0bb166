// The registry of fitted constants, and forecasts without what a family gave.
#include "published/constants.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

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

Prediction prediction(const std::string& family, double predicted, double forecast, double measured) {
  Prediction p;
  p.run.table = family, p.run.iteration_s = measured;
  p.family = family, p.iteration_s = predicted, p.forecasts[0].seconds = forecast;
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
  const auto without = [&](const char* family, const char* gpu, const char* framework) {
    return forecast_of(all, {family, gpu, framework, {}}, Left::family);
  };
  const auto f = without("f", "a100", "y");
  CHECK(f.sets == std::vector<std::string>{"framework.a=2", "framework.b=3"});
  CHECK(f.missing.empty());
  CHECK(without("f", "h100", "x").sets.size() == 3);
  CHECK(without("f", "h100", "x").missing == std::vector<std::string>{"framework.d"});
  CHECK(without("g", "a100", "y").sets.empty());  // other families hold b
  CHECK(without("h", "h100", "x").sets.empty());
}

TEST_CASE("what a framework, a GPU or a cause gave") {
  const auto all = constants(
      "  - {key: framework.a, value: 1, width: 0.1, saw: [p@h100/x, q@a100/x], without: {any: {value: 2, source: s}}}\n"
      "  - {key: framework.b, value: 1, width: 0.1, saw: [p@h100/x, q@a100/y], without: {}}\n"
      "  - {key: framework.c, value: 1, width: 0.1, saw: [p@h100/x, q@h100/y], without: {}}\n"
      "  - {key: framework.d, value: 1, width: 0.1, saw: [s@v100/z], without: {any: none}, cause: eager}\n");
  const auto left = [&](Left what) { return forecast_of(all, {"r@h100/x", "h100", "x", {"eager", "routing"}}, what); };
  CHECK(left(Left::family).sets.empty());  // it gave nothing
  CHECK(left(Left::framework).sets == std::vector<std::string>{"framework.a=2"});
  CHECK(left(Left::framework).missing.empty());  // y supports b and c
  CHECK(left(Left::gpu).missing == std::vector<std::string>{"framework.c"});
  CHECK(left(Left::cause).missing == std::vector<std::string>{"framework.d"});
}

TEST_CASE("causes of a run") {
  using Causes = std::vector<std::string>;
  scenario::RunClass run;
  CHECK(causes_of(run, {}).empty());
  run.precision = "fp8", run.sequence = 32768, run.eager = true;
  CHECK(causes_of(run, {.natural_routing = true}) == Causes{"routing", "eager", "8 or 4 bits", "long context"});
  CHECK(causes_of({}, {.fine_tuning = true}) == Causes{"fine-tuning"});
  scenario::RunClass adapters;
  adapters.adapters = true;
  CHECK(causes_of(adapters, {}) == Causes{"fine-tuning"});
  CHECK(causes_of({}, {.eager_launches = true}) == Causes{"eager"});
}

TEST_CASE("a substitute that rests on what is left out is no substitute") {
  const auto all = constants(
      "  - {key: framework.a, value: 80, width: 0.1, saw: [p@h100/x], cause: [fine-tuning, eager], without: {any: "
      "[{value: "
      "40, source: s, saw: q@h100/y, cause: eager}, {value: 0, source: t}]}}\n");
  const auto left = [&](Left what, std::vector<std::string> causes) {
    return forecast_of(all, {"p@h100/x", "h100", "x", std::move(causes)}, what).sets;
  };
  using Sets = std::vector<std::string>;
  CHECK(left(Left::family, {}) == Sets{"framework.a=40"});
  CHECK(left(Left::framework, {}) == Sets{"framework.a=40"});
  CHECK(left(Left::gpu, {}) == Sets{"framework.a=0"});  // both of one GPU
  CHECK(left(Left::cause, {"fine-tuning"}) == Sets{"framework.a=40"});
  CHECK(left(Left::cause, {"fine-tuning", "eager"}) == Sets{"framework.a=0"});
  CHECK(left(Left::cause, {"routing"}).empty());
}

TEST_CASE("the registry says what is wrong with it") {
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f], without: {}}\n") ==
        "'a' saw one family and has no route without it");
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f], without: {g: none}}\n").find("'g' is not among") !=
        std::string::npos);
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f], without: {any: maybe}}\n").find("'none'") !=
        std::string::npos);
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f, g], cause: eager, without: {}}\n") ==
        "'a' is of one cause and has no route 'any' without it");
  CHECK(error("  - {key: a, value: 1, width: 0, saw: [f, g], cause: heat, without: {any: none}}\n")
            .find("found 'heat'") != std::string::npos);
}

TEST_CASE("families are scored with and without what they gave") {
  std::vector<Prediction> all;
  for (const double measured : {1.0, 1.1, 1.2, 1.3}) all.push_back(prediction("f", 1, 1, measured));
  for (const double measured : {1.1, 1.2}) all.push_back(prediction("g", 1.1, 1, measured));
  const auto families = score_groups(all, Left::family);
  REQUIRE(families.size() == 2);
  CHECK(families[1].mean == doctest::Approx((0. + .1 / 1.2) / 2));
  CHECK(families[1].forecast == doctest::Approx((.1 / 1.1 + .2 / 1.2) / 2));
}
