#include "explore/perform.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

namespace rehearsal::explore {
namespace {

using backend::Compute;

const std::string kTeaching = PROJECT_ROOT "/scenarios/teaching-1f1b-8-stages.yaml";
const std::string kGpt = PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml";

std::string refusal(const std::string& path, const std::vector<std::string>& sets, std::optional<Compute> compute) {
  try {
    load_performable(path, sets, compute, "loopback");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("given times are timed, and nothing can be computed from them") {
  CHECK(load_performable(kTeaching, {}, std::nullopt, "loopback").compute == Compute::timed);
  CHECK(contains(refusal(kTeaching, {}, Compute::real), "--compute timed"));
}

TEST_CASE("timed tasks keep the scenario's framework; real ones need this program's kernels") {
  const auto timed = load_performable(kGpt, {}, Compute::timed, "loopback");
  CHECK_FALSE(timed.scenario.concrete->framework.native_kernels);
  CHECK_FALSE(timed.scenario.simulate.symmetry);
  const auto real = load_performable(kGpt, {}, std::nullopt, "loopback");
  CHECK(real.compute == Compute::real);
  CHECK(real.scenario.concrete->framework.native_kernels);
  REQUIRE_FALSE(real.scenario.warnings.empty());
  CHECK(contains(real.scenario.warnings.back(), "replaced by this program's own"));
  // What the kernels do not do is refused by name, with the way out.
  CHECK(contains(refusal(kGpt, {"training.attention=unfused"}, std::nullopt), "set 'training.attention' to flash"));
}

TEST_CASE("what overlaps iterations is refused") {
  CHECK(contains(refusal(kTeaching, {"training={optimizer_sync: post-validation}", "schedule=zb-h1"}, std::nullopt),
                 "post-validation"));
}

}  // namespace rehearsal::explore
