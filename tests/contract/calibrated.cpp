// `rehearse calibrate` as its users see it: a profile appears, predictions use it, and no incomplete file remains.
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
  // What lies beside: in the report and, to the last digit, in the profile.
  REQUIRE(profile.tiers);
  const auto& tiers = report["tiers"];
  CHECK(tiers["threads"] == profile.tiers->threads);
  CHECK(tiers["copies"].size() >= 3);
  for (const auto& copy : tiers["copies"]) CHECK(copy["bytes_per_s"] > 0);
  for (const auto& [stored, bytes] : {std::pair{"fp32", 28}, std::pair{"bf16", 30}}) {
    CHECK(tiers["adam"][stored]["bytes_each"] == bytes);
    CHECK(tiers["adam"][stored]["seconds_each"] > 0);
  }
  for (const auto& [key, disk] :
       {std::pair{"direct_disk", &profile.tiers->direct_disk}, std::pair{"cached_disk", &profile.tiers->cached_disk}}) {
    CAPTURE(key);
    REQUIRE(*disk);
    CHECK(tiers[key]["means"] == (*disk)->means);
    CHECK(tiers[key]["page_cache"].is_boolean());
    REQUIRE(tiers[key]["times"].size() == (*disk)->samples.size());
    for (std::size_t i = 0; i < (*disk)->samples.size(); i++) {
      CHECK(tiers[key]["times"][i]["bytes"] == (*disk)->samples[i].size.count());
      CHECK(tiers[key]["times"][i]["read_s"] == rehearsal::to_seconds((*disk)->samples[i].read.p50));
      CHECK(tiers[key]["times"][i]["write_bytes_per_s"] > 0);
    }
  }
  CHECK(contains(profile.tiers->cached_disk->means, "through the page cache"));
  // Its matrix products were measured as they stand: 128 rows, 512 x 512.
  CHECK(profile.time({rehearsal::KernelKind::linear, {128, 512, 512}, {}})->exact);

  const auto measured = json::parse(rehearse("run --format json " + kScenario, profiles).out);
  CHECK(measured["assumptions"].size() < assumed["assumptions"].size());
  CHECK(measured["scenario"]["digest"] != assumed["scenario"]["digest"]);
  CHECK(measured["warnings"] == assumed["warnings"]);
  const auto text = rehearse("run " + kScenario, profiles).out;
  CHECK(text.find("GPU assumed-cpu: peak") == std::string::npos);
}
