// One task per stage, layer or operator: the same time, the same peak memory of every rank by category, the same
// reserved memory, and the same breakdown, because coarse tasks are fused from the fine ones.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "answer/predict.hpp"
#include "random_training.hpp"

using namespace rehearsal;

namespace {

answer::Summary ask(const std::string& path, std::vector<std::string> sets, const char* detail) {
  sets.push_back(std::string("simulate.detail=") + detail);
  const auto scenario = scenario::load(path, sets);
  return answer::predict(scenario, answer::Options::summary_alone()).summary;
}

// A coarse task frees its parts' memory only at its own end, so saved memory of the head may still be counted as such
// when the fine form already counts the activations that replaced it. Their sum is the same.
timeline::MemoryByCategory named(timeline::MemoryByCategory memory) {
  auto& loss = memory[static_cast<std::size_t>(graph::MemoryCategory::loss)];
  memory[static_cast<std::size_t>(graph::MemoryCategory::activations)] += loss;
  loss = Bytes{};
  return memory;
}

// A collective beside a kernel of one coarse task shows as communication as a whole; finer tasks show which part of it
// is the kernel's slowdown, and which part of that a data-parallel collective hides as well.
timeline::Breakdown named(timeline::Breakdown parts) {
  auto& contention = parts[static_cast<std::size_t>(graph::Category::contention)];
  parts[static_cast<std::size_t>(graph::Category::tensor_comm)] += contention;
  auto& data = parts[static_cast<std::size_t>(graph::Category::data_comm)];
  parts[static_cast<std::size_t>(graph::Category::tensor_comm)] += data;
  contention = data = Time{};
  return parts;
}

// Coarse tasks are at their highest point throughout. What ZeRO's gathers and reductions hold may be gone when a finer
// task reaches its own: so coarse memory is an upper bound, here within a fiftieth.
bool bound(double fine, double coarse) { return fine <= coarse && fine > .98 * coarse; }

// `moves`: memory changes on other lanes while tasks run.
void check_equal(const answer::Summary& a, const answer::Summary& b, bool moves = false) {
  CHECK(a.iteration == b.iteration);
  CHECK(named(a.breakdown) == named(b.breakdown));
  CHECK(*a.hardware_tflops_per_gpu == doctest::Approx(*b.hardware_tflops_per_gpu).epsilon(1e-12));
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t r = 0; r < a.ranks.size(); r++) {
    CAPTURE(r);
    CHECK(a.ranks[r].busy == b.ranks[r].busy);
    if (moves) {
      CHECK(bound(b.ranks[r].peak.allocated, a.ranks[r].peak.allocated));
      continue;
    }
    CHECK(a.ranks[r].peak.allocated == b.ranks[r].peak.allocated);
    CHECK(a.ranks[r].peak.reserved == b.ranks[r].peak.reserved);
    CHECK(a.ranks[r].peak.device == b.ranks[r].peak.device);
    CHECK(a.ranks[r].allocator_retries == b.ranks[r].allocator_retries);
    CHECK(named(a.ranks[r].memory) == named(b.ranks[r].memory));
  }
}

}  // namespace

TEST_CASE("stage, layer and operator detail agree in time and memory") {
  const std::string root = PROJECT_ROOT "/scenarios/";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "schedule=zb-h1"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "schedule=zb-h1", "training.recompute=full"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "schedule=gpipe", "training.recompute=none"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "framework=oneflow-2021"}},  // gradients overlapped, free sends
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "framework=oneflow-2021", "schedule=zb-h1"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {}},
      {"megatron21-t1/gpt-76b-1024xa100.yaml", {"batch.global=512"}},
      {"llama3-8b-dgx-h100.yaml", {}},
      {"llama3-70b-64xh100.yaml", {"framework=titan-2024", "training.recompute=full"}},
      // ZeRO-2 and 3 alone, with tensor parallelism, pipelines and accumulation, overlapped or not.
      {"llama3-8b-dgx-h100.yaml", {"parallelism={data: 8, zero: 3}", "training.recompute=full"}},
      {"llama3-8b-dgx-h100.yaml", {"parallelism={data: 8, zero: 2}", "training.bucket=1GB"}},
      {"llama3-8b-dgx-h100.yaml", {"parallelism.zero=3", "training.fsdp={prefetch: 3, reshard_after_forward: false}"}},
      {"llama3-8b-dgx-h100.yaml", {"parallelism.zero=2", "training.overlap={gradients: false}"}},
      {"llama3-70b-64xh100.yaml", {"parallelism.zero=2", "training.recompute=full"}},
      {"llama3-70b-64xh100.yaml", {"parallelism.zero=3"}},
      {"llama3-70b-64xh100.yaml", {"parallelism.zero=3", "schedule=zb-h1", "training.overlap={gradients: false}"}},
      {"llama3-70b-64xh100.yaml", {"parallelism.zero=2", "schedule=zb-h1"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "parallelism.zero=3"}},  // tied, nothing overlapped
      // Two copies of the model in opposite directions; one table serves both ends of a tied embedding.
      {"llama3-8b-dgx-h100.yaml",
       {"parallelism={tensor: 8}", "batch={global: 4, micro: 4}", "training.optimizer=lomo"}},
      {"llama3-8b-dgx-h100.yaml", {"parallelism={zero: 3}", "batch={global: 8, micro: 1}", "training.optimizer=lomo"}},
      {"llama3-8b-dgx-h100.yaml",
       {"parallelism={tensor: 8}", "batch={global: 4, micro: 4}", "training.optimizer=lomo",
        "training.gradient_clipping=norm", "training.recompute=full"}},
      {"llama3-8b-dgx-h100.yaml",
       {"parallelism={zero: 3}", "batch={global: 8, micro: 1}", "training.optimizer=adalomo",
        "training.gradient_clipping=norm"}},
      {"llama3-70b-64xh100.yaml", {"schedule=seq1f1b", "batch.global=64"}},
      {"llama3-70b-64xh100.yaml", {"schedule={name: seq1f1b, pieces: 4}", "training.recompute=full"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "schedule={name: seq1f1b, pieces: 4}"}},
      {"llama3-70b-64xh100.yaml", {"schedule=seq1f1b", "batch.global=64", "parallelism.zero=2"}},
      {"llama3-70b-64xh100.yaml", {"schedule=dualpipe", "batch.global=64"}},
      {"llama3-70b-64xh100.yaml", {"schedule=chimera", "batch.global=64", "framework=oneflow-2021"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "schedule=dualpipe", "parallelism.zero=1"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "schedule=chimera", "framework=oneflow-2021"}},
      {"llama3-70b-64xh100.yaml", {"schedule=dualpipe", "batch.global=64", "parallelism.zero=2"}},
      {"llama3-70b-64xh100.yaml", {"schedule=chimera", "batch.global=64", "parallelism.zero=3"}},
      // Experts with replicas of their own.
      {"llama3-8b-dgx-h100.yaml", {"model=mixtral-8x7b", "parallelism={expert: 4, zero: 3}"}},
      {"llama3-8b-dgx-h100.yaml", {"model=mixtral-8x7b", "parallelism={expert: 4, zero: 2}"}},
      // Some layers recomputed: the parts of a stage differ.
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "training.recompute={mode: full, every: 2}"}},
      {"gpt3-175b-1024xa100.yaml",
       {"batch.global=256", "schedule=zb-h1", "training.recompute={mode: selective, layers: 5}"}},
      {"llama3-70b-64xh100.yaml", {"parallelism.zero=3", "training.recompute={mode: full, every: 3, layers: 10}"}},
      {"llama3-8b-dgx-h100.yaml", {"framework=titan-2024", "training.recompute={mode: selective, every: 2}"}},
      {"llama3-70b-64xh100.yaml", {"training.recompute={modules: [layernorm, mlp]}"}},
      // GEMMs in pieces beside their collectives; unfused kernels; layers partitioned by time.
      {"llama3-70b-64xh100.yaml", {"training.overlap={tensor: true}"}},
      {"llama3-70b-64xh100.yaml",
       {"framework={use: titan-2024, async_tensor: true}", "training.recompute=full", "schedule=zb-h1"}},
      {"llama3-70b-64xh100.yaml", {"training.kernels=unfused"}},
      {"gpt3-175b-1024xa100.yaml", {"batch.global=256", "partition=balanced", "training.kernels=unfused"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {"training.bucket=300MB"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {"training.buffers.size=300MB"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {"training.buffers.size=20MB", "framework=oneflow-2021"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {"parallelism.zero=3"}},
      // Buckets below and above a matrix, a layer and the whole model.
      {"llama3-8b-dgx-h100.yaml", {"parallelism={data: 8, zero: 2}", "training.bucket=1MB"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {"training.bucket=20MB", "framework=oneflow-2021"}},
      {"megatron21-t1/gpt-1.7b-32xa100.yaml", {"training.bucket=20GB", "framework=oneflow-2021"}},
      // Peaks within the passes of a stage; full devices whose allocator returns cached memory.
      {"llama3-8b-dgx-h100.yaml",
       {"model={family: llama, layers: 48, hidden: 512, heads: 8, vocabulary: 51200, sequence: 4096, kv_heads: 8, ffn: "
        "2048}",
        "cluster=a100-80g-ib800", "parallelism={tensor: 8, pipeline: 4, chunks: 2, data: 2, zero: 1, sequence: true}",
        "schedule=v-adaptive", "batch={global: 32, micro: 2}",
        "training={precision: bf16, recompute: full, kernels: unfused}", "framework=megatron-2024"}},
      {"gpt3-175b-1024xa100.yaml",
       {"batch.global=256", "schedule=gpipe", "training.recompute=none", "training.allocator=expandable"}},
  };
  for (const auto& [file, sets] : cases) {
    CAPTURE(file);
    for (const auto& set : sets) CAPTURE(set);
    const auto stage = ask(root + file, sets, "stage");
    check_equal(stage, ask(root + file, sets, "layer"));
    const auto zero = [](const std::string& set) {
      return set.find("zero=2") != set.npos || set.find("zero=3") != set.npos || set.find("zero: 2") != set.npos ||
             set.find("zero: 3") != set.npos;
    };
    check_equal(stage, ask(root + file, sets, "operator"), std::any_of(sets.begin(), sets.end(), zero));
  }
}

TEST_CASE("exchanges beside shared experts, or under another micro-batch, take as long at every detail") {
  const std::string file = PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml";
  const std::vector<std::string> usual{"batch={global: 32, micro: 1}", "parallelism={expert: 8, zero: 1}",
                                       "framework=megatron-2025", "model={use: qwen3-30b-a3b, layers: 4}"};
  const std::string shared = "framework.shared_expert_overlap=true", other = "framework.expert_overlap=true";
  const std::string cut = "parallelism={tensor: 2, sequence: true, pipeline: 2, expert: 2, zero: 1}";
  const std::vector<std::vector<std::string>> cases = {
      {shared, "model.shared_experts=1"},
      {shared, "model.shared_experts=64"},  // they take longer than the communication they hide
      {shared, "model.shared_experts=4", "training.recompute=full"},
      {shared, "model.shared_experts=4", "training.recompute={modules: [moe]}"},
      {shared, "model.shared_experts=4", "parallelism={pipeline: 2, expert: 4, zero: 1}", "schedule=zb-h1"},
      {shared, "model.shared_experts=16", cut},
      {other},
      {other, "parallelism={pipeline: 2, expert: 4, zero: 1}", "schedule=zb-h1"},
      {other, cut}};  // with communication beside the gradient of weights
  for (const auto& some : cases) {
    for (const auto& set : some) CAPTURE(set);
    auto sets = usual;
    sets.insert(sets.end(), some.begin(), some.end());
    const auto stage = ask(file, sets, "stage");
    for (const char* detail : {"layer", "operator"}) {
      const auto fine = ask(file, sets, detail);
      CHECK(fine.iteration == stage.iteration);
      REQUIRE(fine.ranks.size() == stage.ranks.size());
      for (std::size_t r = 0; r < fine.ranks.size(); ++r) {
        CHECK(fine.ranks[r].peak.allocated == stage.ranks[r].peak.allocated);
        CHECK(fine.ranks[r].peak.reserved == stage.ranks[r].peak.reserved);
      }
    }
  }
}

TEST_CASE("every rank simulated = one rank standing for its replicas") {
  // 64 GPUs: 2 pipeline ranks x 2 data x 8 tensor, at stage and operator detail; 32 ranks in the graph against 2.
  const std::string file = PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml";
  const std::vector<std::pair<const char*, int>> cases = {{"stage", 1}, {"operator", 1}, {"layer", 2}, {"layer", 3}};
  for (const auto& [detail, zero] : cases) {
    CAPTURE(zero);
    const std::vector<std::string> sets = {"cluster.nodes=4", "parallelism={tensor: 8, pipeline: 2, data: 2, zero: 1}",
                                           "batch.global=16", "model=gpt-7.5b",
                                           fmt::format("parallelism.zero={}", zero)};
    auto every = sets;
    every.push_back("simulate.symmetry=off");
    const auto one = ask(file, sets, detail), all = ask(file, every, detail);
    CHECK(one.ranks.size() == 2);
    CHECK(all.ranks.size() == 32);
    CHECK(one.iteration == all.iteration);
    CHECK(one.breakdown == all.breakdown);
    for (const auto& rank : all.ranks) {
      CHECK(rank.count == 1);
      const auto& same = one.ranks[rank.stages.front()];
      CHECK(rank.peak.allocated == same.peak.allocated);
      CHECK(rank.busy == same.busy);
    }
  }
}

// Tensor groups with unequal GPUs are always simulated by operators; elsewhere coarse tasks get the contention of their
// operators.
TEST_CASE("random trainings take as long at every detail") {
  std::size_t tried = 0, unlike = 0;
  for (std::uint64_t seed = 5000; tried < 150; ++seed) {
    const contract::RandomTraining training(seed);
    CAPTURE(seed);
    CAPTURE(training.text());
    const auto fine = contract::question(training.text(), {"simulate.detail=operator"});
    if (!fine) continue;
    ++tried;
    const auto expected = contract::simulate(*fine, "auto");
    for (const char* detail : {"stage", "layer"}) {
      const auto coarse = contract::question(training.text(), {fmt::format("simulate.detail={}", detail)});
      unlike += coarse->resource_map->classes_in_groups > 0;
      CHECK(contract::simulate(*coarse, "auto").makespan() == expected.makespan());
    }
  }
  MESSAGE(tried << " trainings; in " << unlike / 2 << " tensor groups of GPUs that are not alike");
  CHECK(unlike > 10);
}

TEST_CASE("random trainings with hidden exchanges take as long at every detail") {
  std::size_t tried = 0, of_shared_experts = 0, shared = 0, hidden = 0;
  for (std::uint64_t seed = 9000; tried < 60; ++seed) {
    const contract::RandomTraining training(seed);
    const std::string how = seed % 2 ? "framework.expert_overlap=true" : "framework.shared_expert_overlap=true";
    CAPTURE(seed);
    CAPTURE(how);
    CAPTURE(training.text());
    const auto fine = contract::question(training.text(), {"simulate.detail=operator", how});
    if (!fine) continue;
    const auto works = fine->graph.works();
    const auto travels = [](const graph::Work& work) { return std::holds_alternative<graph::Dispatch>(work); };
    if (std::none_of(works.begin(), works.end(), travels)) continue;
    ++tried, of_shared_experts += seed % 2 == 0;
    const auto expected = contract::simulate(*fine, "auto");
    shared += expected.engine == "fluid";
    for (const char* detail : {"stage", "layer"}) {
      const auto coarse = contract::question(training.text(), {fmt::format("simulate.detail={}", detail), how});
      hidden += std::any_of(coarse->graph.works().begin(), coarse->graph.works().end(),
                            [](const graph::Work& work) { return std::holds_alternative<graph::Overlapped>(work); });
      CHECK(contract::simulate(*coarse, "auto").makespan() == expected.makespan());
    }
  }
  MESSAGE(tried << " trainings, " << of_shared_experts << " hide exchanges under shared experts; " << shared
                << " with something short; " << hidden << " coarse graphs with something beside something");
  CHECK(of_shared_experts > 4);
  CHECK(shared > tried / 4);
  CHECK(hidden > tried);
}
