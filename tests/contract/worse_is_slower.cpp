// Eight shipped machines, one step each that uses tensor, pipeline and data parallelism in and across nodes: every link
// and every rate that is made worse slows it down, every one that is made better speeds it up.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "answer/predict.hpp"
#include "scenario/fields.hpp"
#include "scenario/scenario.hpp"

using namespace rehearsal;

namespace {

// 2 nodes; p3-8xlarge holds 4 GPUs a node, the others 8: pipeline neighbours sit in one node and across both.
std::string question(const std::string& cluster, int per_node) {
  return fmt::format(
      "version: 1\nmodel: gpt-3.6b\ncluster: {{use: {}, nodes: 2}}\n"
      "parallelism: {{tensor: 2, pipeline: {}, data: 2}}\nschedule: 1f1b\n"
      "batch: {{global: 16, micro: 1}}\ntraining: {{precision: fp16, recompute: none, attention: unfused}}\n",
      cluster, per_node / 2);
}

struct Told {
  scenario::Scenario scenario;
  Time iteration;
};
Told ask(const std::string& text, const std::vector<std::string>& sets) {
  Told told;
  told.scenario = scenario::load_text(text, "question", sets);
  told.iteration = answer::predict(told.scenario, answer::Options::summary_alone()).summary.iteration;
  return told;
}

struct Key {
  const char* name;
  bool more_is_better;
};
constexpr Key kLinks[] = {
    {"cluster.links.scale_up.bandwidth", true},   {"cluster.links.scale_up.latency", false},
    {"cluster.links.scale_out.bandwidth", true},  {"cluster.links.scale_out.latency", false},
    {"cluster.links.scale_out.efficiency", true}, {"cluster.links.scale_out.message_efficiency", true},
    {"cluster.message_overhead", false}};
constexpr Key kGpu[] = {{"cluster.gpu.sms", true},
                        {"cluster.gpu.memory_bandwidth", true},
                        {"cluster.gpu.sustained_memory_bandwidth", true}};

constexpr std::pair<const char*, int> kClusters[] = {{"dgx-a100-80g", 8}, {"dgx-h100", 8},  {"dgx-v100-16g", 8},
                                                     {"h800-roce", 8},    {"b200-sxm", 8},  {"a100-40g-roce", 8},
                                                     {"h200-sxm", 8},     {"p3-8xlarge", 4}};

}  // namespace

TEST_CASE("worse is slower and better is faster, on eight machines") {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  for (const auto& [cluster, per_node] : kClusters) {
    CAPTURE(std::string(cluster));
    const auto text = question(cluster, per_node);
    const Told usual = ask(text, {});
    const auto moved = [&](const Key& key, double factor) {
      const auto& field = scenario::scenario_fields().at(key.name);
      const auto to = fields::scaled(field.form, field.get(&usual.scenario), factor);
      REQUIRE(to);
      return ask(text, {fmt::format("{}={}", key.name, fields::written(*to))}).iteration;
    };
    for (const auto& key : kLinks) {
      CAPTURE(std::string(key.name));
      CHECK(moved(key, key.more_is_better ? .5 : 2) > usual.iteration);
      CHECK(moved(key, key.more_is_better ? 1.3 : .5) < usual.iteration);
    }
    for (const auto& key : kGpu) {
      CAPTURE(std::string(key.name));
      CHECK(moved(key, .5) > usual.iteration);
    }
  }
}
