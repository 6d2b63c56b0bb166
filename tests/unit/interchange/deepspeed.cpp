// DeepSpeed's files, as their authors have them, and what they become.
#include "interchange/deepspeed.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <random>

#include "trainers.hpp"

namespace rehearsal::interchange::trainers {
namespace {

const std::vector<std::string> kTrainer{"model=llama3-8b", "batch.micro=1", "batch.global=16",
                                        "training.precision=bf16"};

Imported ds_file(const std::string& name, std::vector<std::string> sets = kTrainer) {
  return import({.files = {sample("deepspeed/" + name)}, .world = 8, .cluster = "dgx-h100", .sets = std::move(sets)},
                beside());
}

// Of a configuration with a batch and bf16, and more.
Imported ds(const std::string& zero, const std::string& more = "", std::int64_t world = 8) {
  return imported_text("ds.json",
                       "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4,\n\"bf16\": "
                       "{\"enabled\": true},\n\"zero_optimization\": {" +
                           zero + "}\n" + more + "}",
                       {.world = world, .cluster = "dgx-h100", .sets = {"model=llama3-8b"}});
}

}  // namespace

TEST_CASE("ZeRO-2 of LLaMA-Factory: what is auto is wanted by the words that hold it") {
  const auto message = refusal([] { ds_file("ds_z2_config.json", {"model=llama3-8b"}); });
  CHECK(holds(message, "ds_z2_config.json:3: train_micro_batch_size_per_gpu auto"));
  CHECK(holds(message, "per_device_train_batch_size of Hugging Face's TrainingArguments; or give --set batch.micro="));
  CHECK(holds(message, "ds_z2_config.json:4: gradient_accumulation_steps auto"));
  CHECK(holds(message, "ds_z2_config.json:16: bf16.enabled auto"));
  CHECK(holds(message, "--set training.precision=VALUE"));

  const auto imported = ds_file("ds_z2_config.json");
  CHECK(imported.formats == std::vector<std::string>{"deepspeed"});
  CHECK(value(imported, "parallelism.zero") == "2");
  CHECK(value(imported, "training.overlap.gradients") == "false");
  CHECK(value(imported, "framework.bucket_parameters") == "500000000");  // elements, 5e8 there
  CHECK(value(imported, "training.gradient_precision") == "bf16");
  CHECK(value(imported, "framework.use") == "deepspeed-2023");
  CHECK(imported.draft.unworded().empty());
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("ZeRO-3 with offload: states on the host, a bucket by the width of the model") {
  const auto imported = ds_file("ds_z3_offload_config.json");
  for (const char* states : {"optimizer", "parameters", "gradients"})
    CHECK(value(imported, std::string("training.offload.") + states) == "host");
  CHECK(value(imported, "framework.bucket_parameters") == "16777216");  // 4096 x 4096
  CHECK(holds(origin(imported, "framework.bucket_parameters"), "hidden 4096 x 4096"));
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("parameters on the host and the optimizer on the GPU; nothing is fetched ahead") {
  const auto imported =
      ds_file("zero3_bf16_cpuoffload_params.json", {"model=llama3-8b", "batch.micro=1", "batch.global=8"});
  CHECK(value(imported, "training.offload.parameters") == "host");
  CHECK(value(imported, "training.offload.optimizer").empty());
  CHECK(value(imported, "training.fsdp.prefetch") == "0");
  CHECK(value(imported, "training.precision") == "bf16");
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("a template is refused by the words that stand for values, comments by their line") {
  const auto message = refusal([] { ds_file("ds_config_gpt_moe_TEMPLATE.json"); });
  CHECK(holds(message, "ds_config_gpt_moe_TEMPLATE.json:2: a template: CONFIG_BATCH_SIZE, CONFIG_MBSIZE"));
  CHECK(holds(message, "give the file that it writes"));
  CHECK(holds(refusal([] { imported_text("ds.json", "{\n  // ours\n  \"zero_optimization\": {\"stage\": 1}\n}"); }),
              "ds.json:2: a comment, which JSON has none of"));
}

TEST_CASE("the batch is the product of its three words") {
  const auto imported = ds("\"stage\": 1");
  CHECK(value(imported, "batch.global") == "64");  // 2 x 4 x 8 GPUs
  CHECK(holds(refusal([] { ds("\"stage\": 1", ", \"train_batch_size\": 32"); }),
              "a batch of 32 sequences is not 2 a micro-batch x 4 accumulations x 8 replicas = 64"));
  CHECK(value(ds("\"stage\": 1", ", \"sequence_parallel_size\": 2"), "batch.global") == "32");
  const auto alone = imported_text("ds.json", R"({"train_batch_size": 32, "fp16": {"enabled": true, "loss_scale": 0}})",
                                   {.world = 8, .cluster = "dgx-h100", .sets = {"model=llama3-8b"}});
  CHECK(value(alone, "batch.micro") == "4");
  CHECK(value(alone, "training.precision") == "fp16");
  CHECK(value(alone, "training.loss_scaling") == "dynamic");
  CHECK(value(alone, "training.overlap.gradients") == "false");
}

TEST_CASE("ZeRO++, MiCS, Ulysses, part of the optimizer, automatic tensor parallelism") {
  const auto plus = ds(
      "\"stage\": 3, \"zero_hpz_partition_size\": 8, \"zero_quantized_weights\": true, \"zero_quantized_gradients\": "
      "true",
      "", 16);
  CHECK(value(plus, "parallelism.secondary_shard") == "8");
  CHECK(value(plus, "training.quantised_gathers") == "int8");
  CHECK(value(plus, "training.quantised_reductions") == "int4");
  CHECK(value(plus, "training.overlap.gradients") == "true");  // of stage 3 where nothing is said
  CHECK(value(ds("\"stage\": 3, \"mics_shard_size\": 8", "", 16), "parallelism.shard") == "8");
  const auto ulysses = ds("\"stage\": 3", ", \"sequence_parallel_size\": 4");
  CHECK(value(ulysses, "parallelism.context") == "4");
  CHECK(value(ulysses, "training.context") == "all-to-all");
  const auto partly = ds("\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.4}");
  CHECK(value(partly, "training.offload.optimizer_fraction") == "0.4");
  CHECK(value(partly, "training.offload.gradients").empty());
  CHECK(value(ds("\"stage\": 1", ", \"tensor_parallel\": {\"autotp_size\": 4}"), "parallelism.tensor") == "4");
}

TEST_CASE("activations that are configured; what cannot be cut is named") {
  const std::string section =
      ", \"activation_checkpointing\": {\"partition_activations\": true, \"cpu_checkpointing\": true}";
  const auto cut = ds("\"stage\": 1", section + ", \"tensor_parallel\": {\"autotp_size\": 4}");
  CHECK(value(cut, "training.partition_activations") == "host");
  CHECK(value(cut, "training.recompute") == "full");
  const auto whole = ds("\"stage\": 1", section);
  CHECK(value(whole, "training.offload.activations") == "host");
  CHECK(names(whole.draft.unworded(), "activation_checkpointing.partition_activations"));
}

TEST_CASE("contradictions and wrong values have their place") {
  CHECK(holds(refusal([] { ds("\"stage\": 4"); }), "ds.json:3: 'zero_optimization.stage' must be 0 to 3; found 4"));
  CHECK(holds(refusal([] { ds("\"stage\": 1", ", \"fp16\": {\"enabled\": true}"); }),
              "fp16 and bf16 (ds.json:2) are both enabled"));
  CHECK(holds(refusal([] { ds("\"stage\": 1, \"offload_optimizer\": {\"device\": \"disk\"}"); }),
              "'zero_optimization.offload_optimizer.device' must be cpu, nvme or none; found disk"));
  const auto odd = ds("\"stage\": 1, \"reduce_bucket_sise\": 5", ", \"optimizer\": {\"type\": \"OneBitAdam\"}");
  CHECK(names(odd.draft.unknown(),
              "zero_optimization.reduce_bucket_sise; did you mean 'zero_optimization.reduce_bucket_size'?"));
  CHECK(names(odd.draft.unworded(), "optimizer.type: OneBitAdam"));
}

TEST_CASE("random layouts in DeepSpeed's words are the same scenario when they are read again") {
  std::mt19937 random(3);
  const auto one_of = [&random](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  int offloaded = 0, read = 0;
  for (int n = 0; n < 60; ++n) {
    const int zero = one_of(0, 1, 2, 3), context = one_of(1, 1, 2), tensor = zero < 3 ? one_of(1, 1, 2) : 1;
    const int data = 16 / context / tensor, micro = one_of(1, 2), rounds = one_of(1, 2, 4);
    const bool overlap = zero > 0 && one_of(true, false), fp16 = one_of(true, false), split = context == 1 && zero == 3;
    const std::string gradients = fp16 ? "fp16" : one_of("bf16", "fp32");
    const std::string place = zero < 2 || tensor > 1 ? "" : one_of("", "", "optimizer", "all", "part");
    std::string text = fmt::format(
        "version: 1\nmodel: {{use: llama3-8b}}\ncluster: {{use: dgx-h100, nodes: 2}}\n"
        "parallelism: {{data: {}, tensor: {}, context: {}, zero: {}{}}}\nbatch: {{global: {}, micro: {}}}\n"
        "framework: {{use: deepspeed-2023, bucket_parameters: {}}}\n"
        "training:\n  precision: {}\n  gradient_precision: {}\n  overlap: {{gradients: {}}}\n",
        data, tensor, context, zero, split ? one_of("", ", shard: 8", ", secondary_shard: 8") : "",
        data * micro * rounds, micro, zero == 0 ? 500000000 : one_of(500000000, 50000000), fp16 ? "fp16" : "bf16",
        gradients, overlap);
    if (fp16) text += fmt::format("  loss_scaling: {}\n", one_of("dynamic", "none"));
    if (context > 1) text += "  context: all-to-all\n";
    if (zero == 3 && one_of(true, false)) text += "  quantised_gathers: int8\n";
    if (place == "optimizer") text += "  offload: {optimizer: host, gradients: host}\n";
    if (place == "part") text += "  offload: {optimizer: host, optimizer_fraction: 0.5}\n";
    if (place == "all" && zero == 3) text += "  offload: {optimizer: host, gradients: host, parameters: host}\n";
    offloaded += !place.empty();
    INFO(text);
    scenario::Scenario first;
    try {
      first = scenario::load_text(text, "random.yaml", {}, beside());
    } catch (const UserError&) {
      continue;  // the combination is refused
    }
    ++read;
    Lacks lacks;
    const auto written = registry().at("deepspeed").write(first, lacks);
    INFO(written);
    const auto again =
        imported_text("again.json", written, {.world = 16, .cluster = "dgx-h100", .sets = {"model=llama3-8b"}});
    CHECK(scenario_of(again).digest == first.digest);
    CHECK_MESSAGE(
        lacks == Lacks{"model, batch.sequence, training.attention and training.kernels: the training script has them"},
        fmt::format("{}", fmt::join(lacks, "; ")));
  }
  CHECK(offloaded > 5);
  CHECK(read > 40);
}

TEST_CASE("what is written of what was read is the same scenario; what has no word is named") {
  for (const char* name : {"ds_z2_config.json", "ds_z3_offload_config.json"}) {
    const auto first = scenario_of(ds_file(name));
    Lacks lacks;
    const auto text = registry().at("deepspeed").write(first, lacks);
    const auto again =
        imported_text("again.json", text, {.world = 8, .cluster = "dgx-h100", .sets = {"model=llama3-8b"}});
    CHECK_MESSAGE(scenario_of(again).digest == first.digest, name);
  }
  const auto odd = scenario::load_text(
      "version: 1\nmodel: {use: llama3-8b}\ncluster: {use: dgx-h100, nodes: 1}\nparallelism: {data: 2, tensor: 2, "
      "pipeline: 2, zero: 1, sequence: true}\nbatch: {global: 64}\ntraining: {recompute: full, allocator: exact}\n",
      "odd.yaml", {}, beside());
  Lacks lacks;
  registry().at("deepspeed").write(odd, lacks);
  const auto all = fmt::format("{}", fmt::join(lacks, "\n"));
  for (const char* part : {"parallelism.sequence", "parallelism.pipeline", "training.recompute: the model's code",
                           "training.allocator (odd.yaml:6)", "framework megatron"})
    CHECK_MESSAGE(holds(all, part), part << " of " << all);
}

}  // namespace rehearsal::interchange::trainers
