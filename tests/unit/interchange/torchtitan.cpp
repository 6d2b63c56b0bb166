// torchtitan's files, as their authors have them, and what they become.
#include "interchange/torchtitan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <random>

#include "plan/partition.hpp"
#include "schedule/registry.hpp"
#include "trainers.hpp"

namespace rehearsal::interchange::trainers {
namespace {

Imported titan_file(const std::string& name, std::int64_t world, std::vector<std::string> sets = {}) {
  return import({.files = {sample("torchtitan/" + name)}, .world = world, .cluster = "dgx-h100", .sets = sets},
                beside());
}

const std::string kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\nseq_len = 4096\n";

Imported titan(const std::string& more, std::int64_t world = 8) {
  return imported_text("small.toml", kTitan + more, {.world = world, .cluster = "dgx-h100"});
}

// What is read of what is written of a scenario.
scenario::Scenario titan_again(const scenario::Scenario& scenario, Lacks& lacks) {
  const auto text = registry().at("torchtitan").write(scenario, lacks);
  return scenario_of(imported_text("again.toml", text, {.world = scenario.parallelism.gpus(), .cluster = "dgx-h100"}));
}

}  // namespace

TEST_CASE("Llama 3 8B of torchtitan: FSDP over all GPUs, eager, operators recomputed") {
  const auto imported = titan_file("llama3_8b.toml", 64);
  CHECK(imported.formats == std::vector<std::string>{"torchtitan"});
  CHECK(value(imported, "model.use") == "llama3-8b");
  CHECK(value(imported, "parallelism.data") == "64");
  CHECK(value(imported, "parallelism.zero") == "3");
  CHECK(value(imported, "batch.micro") == "1");
  CHECK(value(imported, "batch.global") == "64");
  CHECK(value(imported, "batch.sequence") == "8192");
  CHECK(value(imported, "training.recompute.mode") == "selective");
  CHECK(value(imported, "framework.compiled") == "false");
  CHECK(value(imported, "training.precision") == "bf16");  // converters are a comment there
  CHECK(value(imported, "job.steps") == "1000");
  CHECK(holds(origin(imported, "batch.sequence"), "llama3_8b.toml:33 training.seq_len"));
  CHECK(imported.draft.unworded().empty());
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("Llama 3 405B: float8 with all-gathers in 8 bits, asynchronous tensor parallelism, compiled") {
  const auto imported = titan_file("llama3_405b.toml", 128);
  CHECK(value(imported, "model.use") == "llama3-405b");
  CHECK(value(imported, "parallelism.tensor") == "8");
  CHECK(value(imported, "parallelism.sequence") == "true");
  CHECK(value(imported, "parallelism.data") == "16");
  CHECK(value(imported, "training.overlap.tensor") == "true");
  CHECK(value(imported, "training.precision") == "fp8");
  CHECK(value(imported, "framework.fp8_gather") == "true");
  CHECK(value(imported, "framework.fp8_scaling") == "tensorwise");
  CHECK(value(imported, "framework.compiled") == "true");
  CHECK(value(imported, "training.recompute.mode") == "full");
  CHECK(value(imported, "batch.global") == "32");
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("70B and DeepSeek-V3: every word is understood; a loss compiled by itself is one kernel") {
  const auto llama = titan_file("llama3_70b.toml", 64), deepseek = titan_file("deepseek_v3_671b.toml", 256);
  for (const auto* one : {&llama, &deepseek}) {
    CHECK(one->draft.unknown().empty());
    CHECK(one->draft.unworded().empty());
  }
  CHECK(value(llama, "model.use") == "llama3-70b");
  CHECK(value(deepseek, "model.use") == "deepseek-v3");
  CHECK(value(deepseek, "framework.compiled") == "false");
  CHECK(value(deepseek, "framework.loss") == "fused");
  CHECK(value(llama, "framework.loss").empty());
}

TEST_CASE("replicas of shards are shard groups; one shard is plain data parallelism") {
  const auto hybrid = titan("[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = -1\n", 16);
  CHECK(value(hybrid, "parallelism.zero") == "3");
  CHECK(value(hybrid, "parallelism.shard") == "8");
  CHECK(value(hybrid, "parallelism.data") == "16");
  const auto plain = titan("[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n");
  CHECK(value(plain, "parallelism.zero") == "0");
  CHECK(value(plain, "parallelism.shard").empty());
  CHECK(holds(
      refusal([] { titan("[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 2\n"); }),
      "2 groups of 2 replicas that shard are not 8 replicas"));
}

TEST_CASE("a pipeline: micro-batches of the local batch, stages dealt out with their ends, no resharding") {
  // 32 layers and two ends on 4 ranks x 2 stages: 34 / 8 = 4, and two stages get one more.
  const auto imported = titan(
      "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"Interleaved1F1B\"\n"
      "pipeline_parallel_microbatch_size = 2\n",
      8);
  CHECK(value(imported, "schedule") == "interleaved-1f1b");
  CHECK(value(imported, "parallelism.chunks") == "2");
  CHECK(value(imported, "partition") == "[4,5,4,4,4,4,4,3]");
  CHECK(value(imported, "batch.micro") == "2");
  CHECK(value(imported, "batch.global") == "16");  // 8 a replica x 2 replicas
  CHECK(value(imported, "training.fsdp.reshard_after_forward") == "false");
  // 34 / 5 = 7 stages are no multiple of 4 ranks; 34 / 3 = 12 are 3 each.
  const std::string each =
      "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "
      "\"Interleaved1F1B\"\npipeline_parallel_layers_per_stage = ";
  CHECK(value(titan(each + "3\n"), "parallelism.chunks") == "3");
  CHECK(holds(refusal([&] { titan(each + "5\n"); }), "small.toml:10: 32 layers and the ends in stages of 5 are 7"));
  const auto parts = titan(
      "[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], "
      "[" +
      [] {
        std::string names;
        for (int i = 1; i < 32; ++i) names += "\"layers." + std::to_string(i) + "\", ";
        return names;
      }() +
      "\"norm\", \"output\"]]\n");
  CHECK(value(parts, "partition") == "[1,31]");
  CHECK(value(parts, "parallelism.chunks") == "1");
}

TEST_CASE("stages: the first get what does not divide, the ends count as layers") {
  CHECK(torchtitan_stages(1, 32) == std::vector<std::int64_t>{32});
  CHECK(torchtitan_stages(4, 32) == std::vector<std::int64_t>{8, 9, 8, 7});  // 34 / 4: 9 9 8 8 without the ends
  CHECK(torchtitan_stages(2, 30) == std::vector<std::int64_t>{15, 15});
  CHECK(torchtitan_stages(40, 32).empty());
}

TEST_CASE("steps inside the backward are known of one replica; parameters in bf16 take their states along") {
  const std::string section = "[optimizer]\nname = \"AdamW\"\nearly_step_in_backward = true\n";
  CHECK(names(titan(section).draft.unworded(), "optimizer.early_step_in_backward"));
  CHECK(value(titan(section, 1), "training.optimizer_in_backward") == "true");
  const auto narrow =
      imported_text("narrow.toml", kTitan + "dtype = \"bfloat16\"\n", {.world = 8, .cluster = "dgx-h100"});
  CHECK(value(narrow, "training.master_copy") == "false");
  CHECK(value(narrow, "training.moments") == "bf16");
  CHECK(value(narrow, "training.gradient_precision") == "bf16");
}

TEST_CASE("MXFP8 by a converter, with a section that has nothing to say") {
  const auto imported = imported_text(
      "mx.toml",
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"quantize.linear.mx\"]\n[training]\n"
      "local_batch_size = 1\nseq_len = 8192\n[compile]\nenable = true\n[quantize.linear.mx]\nrecipe_name = "
      "\"mxfp8_cublas\"\nfilter_fqns = [\"output\"]\n",
      {.world = 8, .cluster = "b200-sxm"});
  CHECK(value(imported, "training.precision") == "fp8");
  CHECK(value(imported, "framework.fp8_scaling") == "mx");
  CHECK(value(imported, "framework.compiled") == "true");
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("every schedule of torch.distributed.pipelining is one of ours") {
  for (const auto& one : kTorchSchedules) {
    CHECK(schedule::registry().find(one.ours));
    const auto imported = titan(
        fmt::format("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"{}\"\n", one.theirs));
    CHECK(value(imported, "schedule") == one.ours);
    CHECK(value(imported, "parallelism.chunks") == (one.several ? "2" : "1"));
  }
  CHECK(holds(
      refusal([] { titan("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"1f1b\"\n"); }),
      "unknown schedule '1f1b'; known are 1F1B, GPipe"));
}

TEST_CASE("context parallelism: what torchtitan calls alltoall sends keys and values around") {
  const std::string section = "[parallelism]\ncontext_parallel_degree = 2\n";
  CHECK(value(titan(section), "training.context") == "all-gather");
  CHECK(value(titan(section + "context_parallel_rotate_method = \"alltoall\"\n"), "training.context") == "ring");
}

TEST_CASE("the JSON of 2026 has its model in a specification and converters without a name") {
  const auto imported = imported_text(
      "saved.json",
      R"({"model_spec": {"name": "llama3", "flavor": "70B", "model": {"dim": 8192}, "parallelize_fn": "<function>"},
 "training": {"local_batch_size": 2, "global_batch_size": -1, "seq_len": 8192, "steps": 100, "dtype": "float32"},
 "parallelism": {"data_parallel_replicate_degree": 1, "data_parallel_shard_degree": 8, "tensor_parallel_degree": 8,
                 "enable_sequence_parallel": true, "context_parallel_load_balancer": "headtail"},
 "activation_checkpoint": {"mode": "selective", "early_stop": false},
 "compile": {"enable": true, "components": ["model", "loss"], "backend": "inductor"},
 "model_converters": {"converters": [{"recipe_name": "rowwise", "filter_fqns": ["output"], "emulate": false}]},
 "optimizer": {"name": "AdamW", "lr": 0.0003, "implementation": "fused"},
 "checkpoint": {"enable": true, "interval": 500, "async_mode": "async"}, "debug": {"seed": null}})",
      {.cluster = "dgx-h100"});
  CHECK(value(imported, "model.use") == "llama3-70b");
  CHECK(imported.draft[Fact::world]->value == 64);
  CHECK(value(imported, "framework.fp8_scaling") == "rowwise");
  CHECK(value(imported, "training.recompute.mode") == "selective");
  CHECK(value(imported, "training.recompute.early_stop") == "false");
  CHECK(names(imported.draft.unworded(), "checkpoint.async_mode: async"));
  CHECK(names(imported.draft.unworded(), "checkpoint.interval: 500"));
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("the words of mid-2026 count tokens") {
  const auto imported = imported_text("saved.json",
                                      R"({"model_spec": {"name": "llama3", "flavor": "8B"},
 "training": {"num_tokens_per_microbatch_per_dp_rank": 16384, "num_tokens_per_train_step": -1,
              "max_context_length": 8192, "disable_cuda_graphs": true},
 "parallelism": {"data_parallel_shard_degree": -1, "pipeline_parallel_degree": 2, "num_pp_microbatches": 4}})",
                                      {.world = 8, .cluster = "dgx-h100"});
  CHECK(value(imported, "batch.micro") == "2");
  CHECK(value(imported, "batch.sequence") == "8192");
  CHECK(value(imported, "batch.global") == "32");  // 2 x 4 micro-batches x 4 replicas
}

TEST_CASE("a flavor that is not known needs its config.json, or the user's word") {
  const std::string text =
      "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n[training]\nlocal_batch_size = 8\nseq_len = 2048\n";
  const auto message = refusal([&] { imported_text("debug.toml", text); });
  CHECK(holds(message, "debug.toml:3: flavor debugmodel of llama3"));
  CHECK(holds(message, "config.json"));
  CHECK(holds(message, "--set model=VALUE"));
  CHECK(value(imported_text("debug.toml", text, {.sets = {"model=llama3-8b"}}), "model") == "llama3-8b");
}

TEST_CASE("wrong values are named with their line, and what is not known with its neighbour") {
  CHECK(holds(refusal([] { titan("[parallelism]\ntensor_parallel_degree = \"many\"\n"); }),
              "small.toml:8: 'parallelism.tensor_parallel_degree' must be a whole number"));
  CHECK(holds(refusal([] { titan("[activation_checkpoint]\nmode = \"sometimes\"\n"); }),
              "small.toml:8: 'activation_checkpoint.mode' must be none, selective, full or memory_budget"));
  const auto imported = titan("[parallelism]\ntensor_paralel_degree = 2\n");
  CHECK(names(imported.draft.unknown(),
              "parallelism.tensor_paralel_degree; did you mean 'parallelism.tensor_parallel_degree'?"));
}

TEST_CASE("what is written of what was read is the same scenario") {
  for (const auto& [name, world] : {std::pair("llama3_8b.toml", 64), std::pair("llama3_70b.toml", 64),
                                    std::pair("llama3_405b.toml", 128), std::pair("deepseek_v3_671b.toml", 256)}) {
    const auto first = scenario_of(titan_file(name, world));
    Lacks lacks;
    CHECK_MESSAGE(titan_again(first, lacks).digest == first.digest, name);
    CHECK_MESSAGE(lacks.empty(), fmt::format("{}: {}", name, fmt::join(lacks, "; ")));
  }
}

TEST_CASE("scenarios that are shipped, as torchtitan would run them, are the same when they are read again") {
  for (const char* name : {"llama3-8b-dgx-h100", "llama3-70b-64xh100"}) {
    const auto first = scenario::load(
        fmt::format(PROJECT_ROOT "/scenarios/{}.yaml", name),
        {"framework=titan-2025", "parallelism.zero=3", "training.fsdp.reshard_after_forward=false"}, "", beside());
    Lacks lacks;
    CHECK_MESSAGE(titan_again(first, lacks).digest == first.digest, name);
    CHECK_MESSAGE(lacks.empty(), fmt::format("{}: {}", name, fmt::join(lacks, "; ")));
  }
}

TEST_CASE("random layouts in torchtitan's words are the same scenario when they are read again") {
  std::mt19937 random(7);
  const auto one_of = [&random](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  int several = 0, hybrid = 0;
  for (int n = 0; n < 60; ++n) {
    const std::string model = one_of("llama3-8b", "llama3-70b", "qwen3-32b");
    const int tensor = one_of(1, 2, 4, 8), pipeline = one_of(1, 2, 4), data = one_of(2, 4);
    const auto& way = kTorchSchedules[random() % kTorchSchedules.size()];
    const int chunks = pipeline > 1 && way.several ? 2 : 1, micro = one_of(1, 2), rounds = one_of(16, 32);
    const bool sharded = one_of(true, true, false), groups = sharded && data == 4 && one_of(true, false);
    const bool compiled = one_of(true, false);
    const std::string recompute = one_of("none", "full", "selective", "{mode: full, every: 2}");
    std::string text = fmt::format(
        "version: 1\nmodel: {{use: {}}}\nparallelism: {{tensor: {}, sequence: {}, pipeline: {}, chunks: {}, data: {}, "
        "zero: {}{}}}\nbatch: {{global: {}, micro: {}, sequence: 4096}}\n",
        model, tensor, tensor > 1, pipeline, chunks, data, sharded ? 3 : 0, groups ? ", shard: 2" : "",
        data * micro * rounds, micro);
    const auto gpus = tensor * pipeline * data;
    text += fmt::format("cluster: {{use: dgx-h100, {}: {}}}\n", gpus % 8 == 0 ? "nodes" : "gpus",
                        gpus % 8 == 0 ? gpus / 8 : gpus);
    text += fmt::format("framework: {{use: titan-2025, compiled: {}}}\n", compiled);
    text += fmt::format("training:\n  precision: {}\n  recompute: {}\n  kernels: {}\n", one_of("bf16", "fp8"),
                        recompute, compiled ? "fused" : "unfused");
    if (pipeline > 1) {
      if (sharded) text += "  fsdp: {reshard_after_forward: false}\n";
      const auto layers = scenario::named_model(model).layers;
      const auto stages = torchtitan_stages(pipeline * chunks, layers);
      text += fmt::format("schedule: {}\n", way.ours);
      std::vector<std::string> warnings;
      if (stages != plan::deal_layers(layers, pipeline * chunks, {}, warnings))
        text += fmt::format("partition: [{}]\n", fmt::join(stages, ", "));
    }
    several += chunks > 1, hybrid += groups;
    INFO(text);
    const auto first = scenario::load_text(text, "random.yaml", {}, beside());
    Lacks lacks;
    CHECK(titan_again(first, lacks).digest == first.digest);
    CHECK_MESSAGE(lacks.empty(), fmt::format("{}", fmt::join(lacks, "; ")));
  }
  CHECK(several > 5);
  CHECK(hybrid > 5);
}

TEST_CASE("what torchtitan has no word for is named, and what the user gave is not dropped in silence") {
  const auto scenario = scenario::load_text(
      "version: 1\nmodel: {use: mistral-7b}\ncluster: {use: dgx-h100, nodes: 2}\n"
      "parallelism: {data: 8, pipeline: 2, zero: 1}\nbatch: {global: 128, micro: 1}\nschedule: zb-h1\n"
      "training: {bucket: 25MB, allocator: expandable}\nplacement: [data, tensor, context, expert, pipeline]\n",
      "odd.yaml", {}, beside());
  Lacks lacks;
  const auto text = registry().at("torchtitan").write(scenario, lacks);
  const auto all = fmt::format("{}", fmt::join(lacks, "\n"));
  for (const char* part : {"model mistral-7b", "parallelism.zero 1", "schedule zb-h1", "training.bucket (odd.yaml:7)",
                           "training.allocator (odd.yaml:7)", "placement (odd.yaml:8)", "framework megatron"})
    CHECK_MESSAGE(holds(all, part), part << " of " << all);
  CHECK(holds(text, "pipeline_parallel_degree = 2"));
  // Keys that torchtitan would refuse are left out, and what it has is said.
  CHECK(!holds(text, "flavor ="));
  CHECK(holds(text, "pipeline_parallel_schedule = \"1F1B\""));
  CHECK(holds(all, "has flavors of llama3-8b, "));
  CHECK(holds(all, "pipelining has 1F1B, GPipe; 1F1B is written"));
}

TEST_CASE("a schedule of several stages a rank is written where there are several") {
  for (const int chunks : {1, 2}) {
    const auto scenario = scenario::load_text(
        fmt::format("version: 1\nmodel: llama3-8b\ncluster: {{use: dgx-h100, nodes: 2}}\n"
                    "parallelism: {{data: 8, pipeline: 2, chunks: {}, zero: 2}}\nbatch: {{global: 128, micro: 1}}\n"
                    "schedule: interleaved-1f1b\n",
                    chunks),
        "one.yaml", {}, beside());
    Lacks lacks;
    const auto text = registry().at("torchtitan").write(scenario, lacks);
    const auto all = fmt::format("{}", fmt::join(lacks, "\n"));
    CHECK(holds(text, chunks == 1 ? "pipeline_parallel_schedule = \"1F1B\"" : "= \"Interleaved1F1B\""));
    CHECK(holds(all, "schedule interleaved-1f1b, one stage a rank") == (chunks == 1));
  }
}

TEST_CASE("the TOML of before 0.1 is known, and says where its words are now") {
  const std::string old = "[training]\nbatch_size = 8\nseq_len = 2048\ntensor_parallel_degree = 2\n";
  CHECK(holds(refusal([&] { imported_text("old.toml", old); }),
              "'training.tensor_parallel_degree' is a word of torchtitan before 0.1"));
}

}  // namespace rehearsal::interchange::trainers
