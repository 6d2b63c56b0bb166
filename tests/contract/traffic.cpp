// The reported traffic of shipped scenarios: no wire carries more than its rate times the step, all that leaves GPUs
// crosses their links, and neither detail nor symmetry changes a byte.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>

#include "answer/predict.hpp"

using namespace rehearsal;
using namespace rehearsal::answer;

namespace {

struct Case {
  const char* file;
  std::vector<std::string> sets = {};
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"llama3-8b-dgx-h100.yaml", {"batch.global=16"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=16", "parallelism={data: 8, zero: 3}", "training.recompute=full"}},
      {"llama3-8b-dgx-h100.yaml", {"batch.global=16", "framework=titan-2024", "training.overlap={tensor: true}"}},
      {"llama3-70b-64xh100.yaml", {"batch.global=32"}},
      {"llama3-70b-64xh100.yaml", {"batch.global=32", "parallelism.zero=3", "schedule=zb-h1"}},
      {"llama3-70b-64xh100.yaml",
       {"batch.global=32", "training.recompute=full", "framework=titan-2024", "training.overlap={tensor: true}"}},
      // Slow links and little compute: reductions fill the backward.
      {"llama3-8b-dgx-h100.yaml",
       {"cluster.nodes=4", "batch.global=32", "parallelism={data: 32, zero: 2}",
        "cluster.links.scale_out.bandwidth=10Gb/s"}},
      {"megatron21-t1/gpt-3.6b-64xa100.yaml",
       {"batch={global: 64, micro: 1}", "cluster.links.scale_out.bandwidth=5Gb/s"}},
      {"megatron21-t1/gpt-18b-256xa100.yaml", {"batch={global: 256, micro: 2}", "framework=oneflow-2021"}},
      {"megatron21-t1/gpt-76b-1024xa100.yaml", {"batch={global: 128, micro: 1}"}},
      {"megatron21-t1/gpt-145b-1536xa100.yaml",
       {"batch={global: 192, micro: 1}", "schedule=1f1b", "parallelism.chunks=1"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=128"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=128", "cluster.topology={name: fat-tree, oversubscription: 4}"}},
      // Groups that leave a node although they usually stay inside.
      {"llama3-70b-64xh100.yaml",
       {"batch.global=32", "placement=[pipeline, data, tensor, context, expert]", "parallelism.sequence=true"}}};
  return all;
}

struct Told {
  Time iteration;
  answer::TrafficSummary traffic;
};
Told ask(const Case& c, std::vector<std::string> more = {}) {
  auto sets = c.sets;
  sets.insert(sets.end(), more.begin(), more.end());
  const auto r =
      predict(scenario::load(std::string(PROJECT_ROOT "/scenarios/") + c.file, sets), answer::Options::time_alone());
  return {r.summary.iteration, traffic(*r.lowered, r.summary.iteration, std::numeric_limits<std::size_t>::max())};
}

bool leaves_gpu(const LinkTraffic& link) {
  const auto device = link.name.substr(0, std::min(link.name.find(" to "), link.name.find(" port in")));
  return device.find("GPU") != std::string::npos && link.name.find(" port in") == std::string::npos;
}

double sum(const AxisBytes& bytes) {
  double all = 0;
  for (const auto& [name, part] : AxisBytes::parts()) all += bytes.*part;
  return all;
}

}  // namespace

TEST_CASE("no wire is exceeded") {
  double busiest = 0;
  for (const auto& c : cases()) {
    CAPTURE(c.file);
    const auto told = ask(c);
    CHECK(sum(told.traffic.per_gpu) > 0);
    CHECK_FALSE(told.traffic.links.empty());
    for (const auto& link : told.traffic.links) {
      CAPTURE(link.name);
      CHECK(link.bytes > 0);
      CHECK(link.busy_share <= 1);
      busiest = std::max(busiest, link.busy_share);
    }
    for (std::size_t i = 1; i < told.traffic.links.size(); ++i)
      CHECK(told.traffic.links[i - 1].busy_share >= told.traffic.links[i].busy_share);
  }
  MESSAGE("the busiest wire: ", busiest * 100, " %");
  CHECK(busiest > .5);  // some links are nearly saturated
}

TEST_CASE("what GPUs send crosses a link of theirs") {
  // With rings, which send equally everywhere; for trees the busiest rank counts, for links their average load.
  for (const auto& c : cases()) {
    CAPTURE(c.file);
    const auto told = ask(c, {"framework.nccl=2.3"});
    double crossed = 0;
    for (const auto& link : told.traffic.links)
      if (leaves_gpu(link)) crossed += link.bytes * double(link.count);
    CHECK(crossed == doctest::Approx(sum(told.traffic.all_gpus)).epsilon(1e-6));
  }
}

TEST_CASE("detail and symmetry change no byte") {
  for (const auto& c : cases()) {
    CAPTURE(c.file);
    const auto folded = ask(c);
    const auto check = [&](const char* other) {
      CAPTURE(other);
      const auto told = ask(c, {other});
      CHECK(told.traffic.per_gpu == folded.traffic.per_gpu);
      CHECK(sum(told.traffic.all_gpus) == doctest::Approx(sum(folded.traffic.all_gpus)).epsilon(1e-12));
      REQUIRE(told.traffic.links.size() == folded.traffic.links.size());
      for (std::size_t i = 0; i < told.traffic.links.size(); ++i) {
        const auto &a = told.traffic.links[i], &b = folded.traffic.links[i];
        CHECK((a.name == b.name && a.count == b.count && a.bytes == b.bytes));
        if (told.iteration == folded.iteration) CHECK(a.busy_share == b.busy_share);
      }
    };
    check("simulate.detail=layer");
    if (std::string(c.file).starts_with("llama")) check("simulate.detail=operator");
    check("simulate.symmetry=off");
  }
}
