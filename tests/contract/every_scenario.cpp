// Every shipped scenario and part loads, cites its numbers, and has the meaning of its folder.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "cluster/fields.hpp"
#include "scenario/check.hpp"
#include "scenario/jobs_file.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = PROJECT_ROOT;

std::vector<fs::path> yaml_below(const fs::path& folder) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);  // tests must not use this machine's profiles
  std::vector<fs::path> files;
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (file.path().extension() == ".yaml") files.push_back(file.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Whether it is a question for `run`: those of other commands have folders of their own below scenarios/.
bool asks_of_run(const fs::path& file) {
  const auto folder = file.parent_path().filename();
  return folder != "reshard" && folder != "balance" && folder != "jobs";
}

}  // namespace

TEST_CASE("every scenario loads without a warning, and no two ask the same question") {
  auto files = yaml_below(kRoot / "scenarios");
  std::erase_if(files, [](const auto& file) { return !asks_of_run(file); });
  CHECK(files.size() >= 15);
  std::map<std::string, std::string> digests;
  for (const auto& file : files) {
    INFO(file.string());
    const auto s = scenario::load(file.string());
    CHECK(s.warnings.empty());
    CHECK(s.microbatches() >= 1);
    CHECK(s.concrete.has_value() != s.abstract.has_value());
    CHECK_MESSAGE(digests.emplace(s.digest, file.string()).second, digests[s.digest]);
  }
}

TEST_CASE("every file of several jobs is right") {
  for (const auto& file : yaml_below(kRoot / "scenarios/jobs")) {
    INFO(file.string());
    CHECK(format(scenario::check(file.string()).errors) == "");
    CHECK(scenario::load_jobs(file.string()).jobs.size() > 1);
  }
}

TEST_CASE("every part of configs and models is right") {
  for (const char* folder : {"configs/gpus", "configs/clusters", "configs/collectives", "configs/interconnects",
                             "configs/libraries", "configs/profiles", "configs/frameworks", "models/zoo"})
    for (const auto& file : yaml_below(kRoot / folder)) {
      INFO(file.string());
      CHECK(format(scenario::check(file.string()).errors) == "");
    }
}

TEST_CASE("every question of resharding loads without a warning") {
  std::size_t questions = 0;
  for (const auto& file : yaml_below(kRoot / "scenarios")) {
    if (asks_of_run(file)) continue;
    INFO(file.string());
    const auto checked = scenario::check(file.string());
    CHECK(format(checked.errors) == "");
    CHECK(checked.warnings.empty());
    questions++;
  }
  CHECK(questions >= 9);
}

TEST_CASE("every number of a GPU and a cluster has its source") {
  yaml_below(kRoot / "configs");  // refers to this checkout
  const auto text = fs::temp_directory_path() / fmt::format("every-scenario-{}.yaml", ::getpid());
  std::set<std::string> gpus_seen;
  for (const auto& cluster : scenario::list("clusters")) {
    INFO(cluster.name);
    std::ofstream(text) << fmt::format(
        "version: 1\nmodel: llama3-8b\ncluster: {{use: {}, gpus: 1}}\nbatch: {{global: 1}}\n"
        "framework: titan-2024\ntraining: {{precision: fp32, attention: unfused}}\n",
        cluster.name);
    const auto loaded = scenario::load(text.string()).concrete->cluster;
    // A value that differs from its default was given in the file.
    const auto check = [](const auto& description, const auto& part, const auto& skip) {
      for (const auto& field : description.fields)
        if (field.key_of_files && field.form.measurable() && !skip(field.key) &&
            field.get(&part) != (field.otherwise ? field.otherwise(&part) : fields::Value()))
          CHECK_MESSAGE(part.sources.count(field.key) == 1, field.key);
    };
    check(cluster::cluster_fields(), loaded, [&](const std::string& key) {  // one host has no network
      return key.starts_with("gpu.") || (loaded.nics_per_node == 0 && key.starts_with("links.scale_out."));
    });
    check(cluster::gpu_fields(), loaded.gpu, [](const std::string&) { return false; });
    gpus_seen.insert(loaded.gpu.name);
  }
  fs::remove(text);
  for (const auto& gpu : scenario::list("gpus")) CHECK_MESSAGE(gpus_seen.count(gpu.name) == 1, gpu.name);
}

TEST_CASE("every model and profile names its source") {
  yaml_below(kRoot / "configs");
  for (const char* kind : {"models", "frameworks"})
    for (const auto& part : scenario::list(kind)) {
      INFO(part.name);
      CHECK(part.source.size() > 10);
      CHECK(part.summary.size() > 10);
    }
}
