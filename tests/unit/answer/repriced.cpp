// A graph that is priced again: the step that a prediction from the start finds, or no answer.
#include "answer/repriced.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "scenario/load.hpp"

namespace {

using namespace rehearsal;

scenario::Scenario asked(const std::vector<std::string>& sets) {
  return scenario::load(PROJECT_ROOT "/scenarios/gpt-7.5b-zero-64xv100.yaml", sets);
}
Time iteration(const scenario::Scenario& scenario) {
  return answer::predict(scenario, answer::Options::time_alone()).summary.iteration;
}

}  // namespace

TEST_CASE("a number that is a rate, a size of a work or a time of the host is repriced") {
  const auto base = answer::predict(asked({}));
  const answer::Repricing repricing(base);
  for (const char* set : {"cluster.gpu.memory_bandwidth=2 TB/s", "framework.optimizer_bytes=55",
                          "framework.host_time_per_kernel=70us", "cluster.launch_factor=1.5"}) {
    CAPTURE(set);
    const auto other = asked({set});
    const auto time = repricing.iteration(other);
    REQUIRE(time);
    CHECK(*time != base.summary.iteration);
    CHECK(*time == iteration(other));
    CHECK(repricing.iteration(other) == time);  // known by now
  }
}

TEST_CASE("another graph is not repriced") {
  const auto base = answer::predict(asked({}));
  const answer::Repricing repricing(base);
  for (const char* set : {"batch.global=128", "parallelism.zero=1", "training.recompute=none"}) {
    CAPTURE(set);
    CHECK_FALSE(repricing.iteration(asked({set})));
  }
}

TEST_CASE("transfers between stages of other layouts and parameter servers are repriced") {
  const std::pair<const char*, std::vector<std::string>> scenarios[] = {
      {"gpt-resharding-p3-8xlarge.yaml", {"batch.global=32"}},
      {"parameter-servers-64xa100.yaml",
       {"batch.global=64", "cluster.nodes=2", "parallelism.data=16", "data_parallel.servers=2"}}};
  for (const auto& [file, sets] : scenarios) {
    const auto with = [&](const std::string& set) {
      auto all = sets;
      if (!set.empty()) all.push_back(set);
      return scenario::load(PROJECT_ROOT "/scenarios/" + std::string(file), all);
    };
    const auto base = answer::predict(with(""));
    const answer::Repricing repricing(base);
    for (const char* set : {"cluster.gpu.memory_bandwidth=400 GB/s", "cluster.gpu.memory_bandwidth=1200 GB/s"}) {
      CAPTURE(std::string(file));
      CAPTURE(std::string(set));
      const auto other = with(set);
      const auto time = repricing.iteration(other);
      CHECK(time);
      if (time) CHECK(*time == iteration(other));
    }
  }
}
