// `rehearse calibrate` as its users meet it: a profile appears, predictions rest on it, and nothing half done is left.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../program.hpp"
#include "scenario/profile.hpp"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Standard error goes with standard output; profiles lie in `profiles` alone.
Output rehearse(const std::string& arguments, const fs::path& profiles) {
  return shell("cd '" PROJECT_ROOT "' && REHEARSAL_PROFILES='" + profiles.string() + "' '" REHEARSE_BINARY "' " +
               arguments + " 2>&1");
}

const std::string kScenario = "scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml";

}  // namespace

TEST_CASE("a machine is measured, and its scenarios are predicted from that") {
  const Scratch scratch;
  const auto profiles = scratch.folder / "new" / "folder";
  const auto assumed = json::parse(rehearse("run --format json " + kScenario, profiles).out);
  const auto run = rehearse("calibrate --backend loopback --quick --format json " + kScenario, profiles);
  REQUIRE_MESSAGE(run.status == 0, run.out);
  const auto report = json::parse(run.out);
  const auto file = profiles / "this-machine-loopback.yaml";
  CHECK(report["file"] == file.string());
  CHECK(report["rehearsal"]["backend"] == "loopback");
  CHECK(report["kernels"].size() == rehearsal::kKernelKinds);
  CHECK(std::distance(fs::directory_iterator(profiles), {}) == 1);

  const auto profile = rehearsal::scenario::load_profile_file(file.string());
  CHECK(profile.digest == report["digest"]);
  CHECK(profile.has_messages());
  CHECK(profile.has_collectives());
  // Its matrix products were measured as they stand: 128 rows, 512 x 512.
  CHECK(profile.time({rehearsal::KernelKind::linear, {128, 512, 512}, {}})->exact);

  const auto measured = json::parse(rehearse("run --format json " + kScenario, profiles).out);
  CHECK(measured["assumptions"].size() < assumed["assumptions"].size());
  CHECK(measured["scenario"]["digest"] != assumed["scenario"]["digest"]);
  CHECK(measured["warnings"] == assumed["warnings"]);
  const auto text = rehearse("run " + kScenario, profiles).out;
  CHECK(text.find("GPU assumed-cpu: peak") == std::string::npos);
}

TEST_CASE("what cannot be measured is said before anything is measured") {
  const Scratch scratch;
  const auto check = [&](const std::string& arguments, int status, const std::string& hint) {
    CAPTURE(arguments);
    const auto run = rehearse("calibrate " + arguments, scratch.folder);
    CHECK(run.status == status);
    CHECK_MESSAGE(run.out.find(hint) != std::string::npos, run.out);
  };
  check("", 2, "--backend loopback");
  check("--backend lopback", 2, "loopback");
  check("--backend sim", 2, "sim");
  check("--backend loopback --ranks 0", 2, "--ranks");
  check("--backend loopback a.yaml b.yaml", 2, "one scenario");
  check("--backend loopback nowhere.yaml", 2, "nowhere.yaml");
  check("--backend loopback scenarios/llama3-8b-dgx-h100.yaml", 2, "software: rehearsal");
  check("--backend loopback --output /no/such/folder/x.yaml", 2, "/no/such/folder");
  CHECK(fs::is_empty(scratch.folder));
}
