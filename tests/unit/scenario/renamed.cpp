// Keys that have new names: files and --set with the old ones ask the same, with one note.
#include "scenario/renamed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "scenario/scenario.hpp"

namespace rehearsal::scenario {
namespace {

const std::string kRest =
    "version: 1\nmodel: llama3-8b\nparallelism: {tensor: 8, pipeline: 2}\nbatch: {global: 16, micro: 1}\n";
std::string cluster(const std::string& inside, const std::string& p2p, const std::string& gather,
                    const std::string& between) {
  return "cluster:\n  gpu: a100-80g-sxm\n  nodes: 2\n  gpus_per_node: 8\n  links:\n    " + inside +
         ": {bandwidth: 300GB/s, " + p2p + ": 80GB/s, " + gather + ": 200GB/s}\n    " + between +
         ": {per_node: 8, bandwidth: 200Gb/s}\n";
}
const std::string kToday = kRest + cluster("scale_up", "p2p_bandwidth", "sharded_p2p_gather_bandwidth", "scale_out") +
                           "framework: {use: megatron-2024, fp8_gather: true}\nsimulate: {contention: off}\n";
const std::string kOnce = kRest + cluster("nvlink", "message", "gather", "nic") +
                          "software: {use: megatron-2024, fp8_gather: true}\nsimulate: {network: closed-form}\n";

std::vector<std::string> notes(const Scenario& scenario) {
  std::vector<std::string> found;
  std::ranges::copy_if(scenario.warnings, std::back_inserter(found),
                       [](const std::string& w) { return w.find("now") != std::string::npos; });
  return found;
}

}  // namespace

TEST_CASE("a file with the old names asks the same, and one note names what is called otherwise") {
  const Scenario today = load_text(kToday, "today.yaml"), once = load_text(kOnce, "once.yaml");
  CHECK(today.digest == once.digest);
  CHECK(notes(today).empty());
  REQUIRE(notes(once).size() == 1);
  for (const char* name :
       {"'software' is called 'framework' now", "'nvlink' is called 'scale_up' now", "'nic' is called 'scale_out' now",
        "'message' is called 'p2p_bandwidth' now", "'gather' is called 'sharded_p2p_gather_bandwidth' now",
        "'network' is called 'contention' now", "'closed-form' is called 'off' now", "the old names are read for good"})
    CHECK_MESSAGE(notes(once).front().find(name) != std::string::npos, notes(once).front());
}

TEST_CASE("settings of the command line have both names too") {
  const auto with = [](const std::vector<std::string>& sets) { return load_text(kToday, "x.yaml", sets); };
  const std::pair<const char*, const char*> both[] = {
      {"framework=native", "software=rehearsal"},
      {"framework.use=native", "software.use=rehearsal"},
      {"cluster.links.scale_up.p2p_bandwidth=10GB/s", "cluster.links.nvlink.message=10GB/s"},
      {"cluster.links={scale_up: {bandwidth: 1GB/s}, scale_out: {per_node: 1, bandwidth: 1GB/s}}",
       "cluster.links={nvlink: {bandwidth: 1GB/s}, nic: {per_node: 1, bandwidth: 1GB/s}}"},
      {"simulate.contention=on", "simulate.network=fluid"}};
  for (const auto& [today, once] : both) {
    CAPTURE(once);
    const Scenario new_name = with({today}), old_name = with({once});
    CHECK(new_name.digest == old_name.digest);
    CHECK(notes(new_name).empty());
    CHECK(!notes(old_name).empty());
  }
}

TEST_CASE("the kind of the links inside a node may stand beside their rate") {
  const auto with = [](const std::string& key) {
    return load_text(kToday, "x.yaml", {"cluster.links.scale_up." + key});
  };
  CHECK(with("kind=xgmi").digest == with("interconnect=assumed-xgmi").digest);
  CHECK(with("kind=xgmi").digest != with("kind=nvlink").digest);
  CHECK_THROWS_WITH_AS(with("kind=wire"), doctest::Contains("'kind' must be one of nvlink, xgmi, pcie; found 'wire'"),
                       UserError);
}

TEST_CASE("one key under both names is given twice") {
  try {
    load_text(kToday + "software: megatron-2025\n", "both.yaml");
    FAIL("both names were taken");
  } catch (const UserError& error) {
    CHECK(std::string(error.what()).find("duplicate key 'framework'") != std::string::npos);
  }
}

TEST_CASE("digests know keys and values by their first names") {
  CHECK(first_key("framework.fp8_gather") == "software.fp8_gather");
  CHECK(first_key("cluster.links.scale_up.p2p_bandwidth") == "cluster.links.nvlink.message");
  CHECK(first_key("cluster.gpu.framework") == "cluster.gpu.software");
  CHECK(first_key("simulate.contention") == "simulate.network");
  CHECK(first_value("simulate.contention", "off") == "closed-form");
  CHECK(first_value("framework.name", "native") == "rehearsal");
  CHECK(first_key("training.precision") == "training.precision");
}

}  // namespace rehearsal::scenario
