// Laws of any cost model of training, whatever its constants: better hardware is never slower, recomputation only
// trades time for memory, more of the model takes longer, more data-parallel ranks divide the work.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>

#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

using Sets = std::vector<std::string>;
using Change = std::function<void(scenario::Scenario&)>;

answer::Summary ask(const scenario::Scenario& scenario) { return answer::predict(scenario).summary; }
answer::Summary ask(const char* file, const Sets& sets) {
  return ask(scenario::load(std::string(PROJECT_ROOT "/scenarios/") + file, sets));
}
Time worked(const answer::Summary& s) {
  const auto of = [&](graph::Category c) { return s.breakdown[static_cast<std::size_t>(c)]; };
  return of(graph::Category::compute) + of(graph::Category::recompute);
}

constexpr const char* kGpt = "gpt3-175b-1024xa100.yaml";
constexpr const char* kLlama = "llama3-70b-64xh100.yaml";

// Jobs of every kind of communication: pipelines, tensor groups with and without sequence parallelism, ZeRO.
const std::vector<std::pair<const char*, Sets>> kJobs = {
    {kGpt, {"batch.global=256"}},
    {kGpt, {"batch.global=256", "schedule=zb-h1", "training.recompute=none"}},
    {kLlama, {}},
    {kLlama, {"parallelism.zero=3", "training.recompute=full"}},
    {kLlama, {"framework={use: titan-2024, async_tensor: true}"}},
    {kLlama, {"partition=balanced", "model.layers=78", "training.kernels=unfused"}},
    {"llama3-8b-dgx-h100.yaml", {"parallelism={data: 8, zero: 2}"}},
};

}  // namespace

TEST_CASE("better hardware is never slower") {
  const std::vector<std::pair<const char*, Change>> changes = {
      {"memory",
       [](auto& s) {
         auto& b = s.concrete->cluster.gpu.sustained_memory_bandwidth;
         b = b * 1.5;
       }},
      {"clock", [](auto& s) { s.concrete->cluster.gpu.sustained_clock *= 1.3; }},
      {"nvlink",
       [](auto& s) {
         auto& b = s.concrete->cluster.nvlink;
         b = b * 2.;
       }},
      {"messages",
       [](auto& s) {
         auto& b = s.concrete->cluster.nvlink_message;
         b = b * 2.;
       }},
      {"nic",
       [](auto& s) {
         auto& b = s.concrete->cluster.nic;
         b = b * 2.;
       }},
      {"nics", [](auto& s) { s.concrete->cluster.nics_per_node *= 2; }},
      {"latency", [](auto& s) { s.concrete->cluster.nic_latency = Time{}; }},
      {"launches", [](auto& s) { s.concrete->framework.host_seconds_per_kernel /= 2; }},
  };
  for (const auto& [file, sets] : kJobs) {
    const auto usual = scenario::load(std::string(PROJECT_ROOT "/scenarios/") + file, sets);
    const Time before = ask(usual).iteration;
    CAPTURE(file);
    CAPTURE(fmt::format("{}", fmt::join(sets, " ")));
    bool any = false;
    for (const auto& [what, change] : changes) {
      CAPTURE(what);
      auto better = usual;
      change(better);
      const Time after = ask(better).iteration;
      CHECK(after <= before);
      any = any || after < before;
    }
    CHECK(any);
  }
}

TEST_CASE("more recomputation: never more memory, never less time") {
  const Sets ladder = {"none", "{mode: selective, layers: 1}", "{mode: selective, every: 2}", "selective", "full"};
  const Sets by_layers = {"{mode: full, layers: 0}", "{mode: full, layers: 1}", "{mode: full, layers: 3}",
                          "{mode: full, layers: 6}", "full"};
  const Sets by_every = {"none", "{mode: full, every: 8}", "{mode: full, every: 4}", "{mode: full, every: 2}",
                         "{mode: full, every: 1}"};
  for (const auto& [file, sets] : kJobs)
    for (const auto* steps : {&ladder, &by_layers, &by_every}) {
      CAPTURE(file);
      CAPTURE(fmt::format("{}", fmt::join(sets, " ")));
      std::optional<answer::Summary> before;
      for (const auto& step : *steps) {
        CAPTURE(step);
        auto all = sets;
        all.push_back("partition=uniform");  // otherwise layers move to where they are cheap
        all.push_back("training.recompute=" + step);
        const auto now = ask(file, all);
        if (before) {
          // Recomputation may keep two transfers apart that would have met: a scheduling anomaly.
          CHECK(to_seconds(now.iteration) >= .99 * to_seconds(before->iteration));
          CHECK(now.peak.allocated <= before->peak.allocated);
        }
        before = now;
      }
      const auto none = ask(file, [&] {
        auto all = sets;
        all.insert(all.end(), {"partition=uniform", "training.recompute=none"});
        return all;
      }());
      CHECK(before->iteration > none.iteration);
      CHECK(before->peak.allocated < none.peak.allocated);
    }
}

TEST_CASE("a larger model, longer sequences and more of them take longer") {
  // 8 A100, GPT of 16 layers, 2,048 wide.
  const auto time = [](const Sets& more) {
    Sets sets = {"cluster={use: dgx-a100-80g, nodes: 1}",
                 "model={family: gpt, layers: 16, hidden: 2048, heads: 16, vocabulary: 51200, sequence: 1024}",
                 "parallelism={tensor: 2, pipeline: 2, data: 2}", "batch={global: 64, micro: 2}", "schedule=1f1b"};
    sets.insert(sets.end(), more.begin(), more.end());
    return ask(kGpt, sets).iteration;
  };
  const auto grows = [&](const std::string& key, const std::vector<std::int64_t>& values) {
    CAPTURE(key);
    Time before;
    for (const auto v : values) {
      CAPTURE(v);
      const Time now = time({fmt::format("{}={}", key, v)});
      CHECK(now > before);
      before = now;
    }
  };
  grows("model.layers", {8, 16, 24, 32});
  grows("model.hidden", {1024, 2048, 3072, 4096, 8192});
  grows("model.sequence", {512, 1024, 2048, 4096});
  grows("model.vocabulary", {32000, 51200, 128256});
  grows("model.ffn", {4096, 8192, 16384});
  grows("batch.global", {32, 64, 128, 256});
}

TEST_CASE("twice the data-parallel ranks halve the work of a given batch") {
  // Only the sums of gradients differ: here they are added inside the GEMMs, and the first sum is free, so of m
  // micro-batches m - 1 add 2 bytes per parameter: 1/2 - 1/m of at most a percent.
  for (const auto& [few, many] : {std::pair(8, 16), std::pair(16, 32)}) {
    const auto run = [](std::int64_t data) {
      return ask(kGpt, {fmt::format("parallelism={{tensor: 8, pipeline: 1, data: {}}}", data), "model=gpt-18b",
                        "cluster={use: dgx-a100-80g}", "batch={global: 512, micro: 2}", "framework=oneflow-2021"});
    };
    const auto fewer = run(few), more = run(many);
    CHECK(to_seconds(worked(more)) / to_seconds(worked(fewer)) == doctest::Approx(.5).epsilon(.01));
    CHECK(more.iteration < fewer.iteration);
    // The same work per rank as the batch grows: reductions reach further, nothing else changes.
    const auto weak =
        ask(kGpt, {fmt::format("parallelism={{tensor: 8, pipeline: 1, data: {}}}", many), "model=gpt-18b",
                   "cluster={use: dgx-a100-80g}", "batch={global: 1024, micro: 2}", "framework=oneflow-2021"});
    CHECK(worked(weak) == worked(fewer));
    CHECK(weak.iteration >= fewer.iteration);
    CHECK(to_seconds(weak.iteration) < 1.1 * to_seconds(fewer.iteration));
  }
}

TEST_CASE("tensor groups across nodes of 100 GB/s are at least 1.8 times slower") {
  // The same 64 GPUs, model and batch: 16 ranks in two nodes instead of 8 in one, and half as many stages.
  // Communication at every size; the iteration where it is half of the work, at h = 3072 (at 12,288 it is 1.44 times
  // slower).
  const auto run = [](const char* model, std::int64_t tensor) {
    return ask(kGpt, {fmt::format("parallelism={{tensor: {}, pipeline: {}, data: 1}}", tensor, 64 / tensor),
                      fmt::format("model={}", model), "cluster={use: a100-80g-ib800}", "batch={global: 64, micro: 1}"});
  };
  const auto communication = [](const answer::Summary& s) {
    return to_seconds(s.breakdown[static_cast<std::size_t>(graph::Category::tensor_comm)]);
  };
  for (const char* model : {"gpt-3.6b", "gpt-18b", "gpt3-175b"}) {
    CAPTURE(model);
    const auto inside = run(model, 8), across = run(model, 16);
    CHECK(communication(across) > 1.8 * 2 * communication(inside));  // twice as many layers on each GPU
    CHECK(across.iteration > inside.iteration);
  }
  CHECK(to_seconds(run("gpt-3.6b", 16).iteration) > 1.8 * to_seconds(run("gpt-3.6b", 8).iteration));
}
