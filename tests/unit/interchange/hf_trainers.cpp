// Files of trainers on top of Hugging Face's, alone and together with Accelerate's and DeepSpeed's.
#include <fmt/format.h>

#include "trainers.hpp"

namespace rehearsal::interchange::trainers {
namespace {

Imported tuned(const std::string& path, std::vector<std::string> sets = {}) {
  return import({.files = {sample(path)}, .world = 16, .cluster = "dgx-h100", .sets = std::move(sets)}, beside());
}

Imported all_of(const std::map<std::string, std::string>& texts, const std::vector<std::string>& files,
                std::vector<std::string> sets = {}) {
  return import({.files = files, .cluster = "dgx-h100", .sets = std::move(sets)}, beside(texts));
}

const std::string kAxolotl =
    "base_model: meta-llama/Llama-3.1-8B-Instruct\nsequence_len: 4096\nmicro_batch_size: 2\n"
    "gradient_accumulation_steps: 4\noptimizer: adamw_torch\nbf16: true\n";

Imported axolotl(const std::string& more) {
  return imported_text("axolotl.yaml", kAxolotl + more, {.world = 8, .cluster = "dgx-h100"});
}

}  // namespace

TEST_CASE(
    "TrainingArguments and a config.json: autocast over weights in fp32; without it, what bf16 weights need is named") {
  const auto read = [](const std::vector<std::string>& sets, const std::map<std::string, std::string>& texts = {}) {
    return import({.files = {sample("hf-arguments/config.json"),
                             texts.empty() ? sample("hf-arguments/training_args.json") : texts.begin()->first},
                   .world = 1,
                   .cluster = "h200-sxm",
                   .sets = sets},
                  beside(texts));
  };
  const auto imported = read({});
  CHECK(imported.formats == std::vector<std::string>{"huggingface", "hf-arguments"});
  for (const auto& [key, wanted] : std::map<std::string, std::string>{{"batch.micro", "4"},
                                                                      {"batch.global", "8"},
                                                                      {"training.precision", "bf16"},
                                                                      {"training.recompute", "full"},
                                                                      {"training.kernels", "unfused"},
                                                                      {"framework.fp32_stream", "true"},
                                                                      {"framework.foreach_step", "false"},
                                                                      {"job.steps", "15"}})
    CHECK(value(imported, key) == wanted);
  CHECK(imported.draft.unworded().empty());
  CHECK(imported.draft.unknown().empty());
  const std::string plain =
      R"({"output_dir": "x", "per_device_train_batch_size": 1, "lr_scheduler_type": "linear", "adam_beta1": 0.9, "bf16": false,
          "fp16": false})";
  const auto whole = read({}, {{"plain.json", plain}});
  CHECK(value(whole, "training.precision") == "fp32");
  CHECK(value(whole, "framework.fp32_stream").empty());
  REQUIRE(whole.draft.unworded().size() == 1);
  CHECK(whole.draft.unworded()[0].where.line == 1);
}

TEST_CASE("axolotl, Llama 3.1 8B with FSDP, everything on the host, and Liger's kernels") {
  const auto imported = tuned("axolotl/fft-8b-liger-fsdp.yaml");
  CHECK(imported.formats == std::vector<std::string>{"axolotl"});
  CHECK(value(imported, "model.use") == "llama3-8b");  // NousResearch/Meta-Llama-3.1-8B there
  CHECK(value(imported, "batch.global") == "128");     // 2 x 4 x 16
  CHECK(value(imported, "batch.sequence") == "4096");
  CHECK(value(imported, "parallelism.zero") == "3");
  for (const char* states : {"optimizer", "parameters", "gradients"})
    CHECK(value(imported, std::string("training.offload.") + states) == "host");
  CHECK(value(imported, "framework.use") == "hf-2024");
  CHECK(value(imported, "framework.loss") == "linear-fused");
  CHECK(value(imported, "framework.foreach_step") == "false");
  CHECK(value(imported, "training.kernels") == "fused");
  CHECK(value(imported, "training.recompute") == "full");
  CHECK(names(imported.draft.unworded(), "sample_packing: true"));
  CHECK(imported.draft.unworded().size() == 1);
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("axolotl, GPT-OSS 120B: FSDP 2, shards over 16 GPUs, activations leave, logits are never whole") {
  const auto imported =
      import({.files = {sample("axolotl/gpt-oss-120b-fft-fsdp2-offload.yaml")}, .cluster = "dgx-h100"}, beside());
  CHECK(value(imported, "model.use") == "gpt-oss-120b");  // axolotl-ai-co/gpt-oss-120b-dequantized
  CHECK(imported.draft[Fact::world]->value == 16);        // dp_shard_size
  CHECK(value(imported, "parallelism.zero") == "3");
  CHECK(value(imported, "training.offload.activations") == "host");
  CHECK(value(imported, "framework.attention_kernel") == "flash-3");
  CHECK(value(imported, "framework.loss") == "linear-fused");
  CHECK(value(imported, "training.kernels") == "unfused");
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("axolotl with a model that is not known wants its config.json") {
  const auto message = refusal([] { tuned("axolotl/fft-fsdp-16b.yaml"); });
  CHECK(holds(message, "fft-fsdp-16b.yaml:1: base_model: deepseek-ai/DeepSeek-V2-Lite"));
  CHECK(holds(message, "config.json"));
  const auto imported = tuned("axolotl/fft-fsdp-16b.yaml", {"model=qwen3-32b"});
  CHECK(value(imported, "parallelism.zero") == "3");
  CHECK(value(imported, "batch.sequence") == "2048");
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("axolotl's adapters: rank, modules, quantised weights") {
  const auto imported = axolotl(
      "adapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_dropout: 0\nlora_target_modules: [q_proj, k_proj, v_proj, "
      "o_proj]\nlora_modules_to_save: [embed_tokens, lm_head]\n");
  CHECK(value(imported, "training.lora.rank") == "32");
  CHECK(value(imported, "training.lora.modules") == "[\"linear_qkv\",\"linear_proj\"]");
  CHECK(value(imported, "training.lora.ends") == "true");
  CHECK(value(imported, "training.frozen_precision") == "nf4-double");
  CHECK(value(imported, "framework.adapter_dropout") == "false");
  const auto part = axolotl("adapter: lora\nlora_r: 8\nlora_target_modules: [q_proj, v_proj, router]\n");
  CHECK(value(part, "training.lora.modules") == "[\"linear_qkv\"]");
  CHECK(names(part.draft.unworded(), "a part of q_proj, k_proj and v_proj"));
  CHECK(names(part.draft.unworded(), "lora_target_modules: router"));
  CHECK(value(axolotl("adapter: lora\nlora_target_linear: true\n"), "training.lora.modules").empty());
}

TEST_CASE("axolotl's optimizers, full 16 bits, context parallelism") {
  CHECK(value(axolotl(""), "framework.foreach_step").empty());
  const auto eight = imported_text("a.yaml",
                                   "base_model: llama3-8b\nsequence_len: 4096\nmicro_batch_size: 1\n"
                                   "optimizer: paged_adamw_8bit\nbf16: full\ncontext_parallel_size: 2\n",
                                   {.world = 8, .cluster = "dgx-h100"});
  CHECK(names(eight.draft.unworded(), "optimizer: paged_adamw_8bit"));
  CHECK(value(eight, "training.master_copy") == "false");
  CHECK(value(eight, "training.moments") == "int8");
  CHECK(value(eight, "parallelism.context") == "2");
  CHECK(value(eight, "training.context") == "ring");
  CHECK(names(axolotl("sequence_lenn: 4\n").draft.unknown(), "sequence_lenn; did you mean 'sequence_len'?"));
}

TEST_CASE("LLaMA-Factory on Megatron-Core: its degrees, its optimizer, its recomputation") {
  const auto imported =
      import({.files = {sample("llamafactory/qwen3_moe_full.yaml")}, .world = 8, .cluster = "dgx-h100"}, beside());
  CHECK(imported.formats == std::vector<std::string>{"llamafactory"});
  CHECK(value(imported, "model.use") == "qwen3-30b-a3b");
  CHECK(value(imported, "parallelism.pipeline") == "4");
  CHECK(value(imported, "parallelism.expert") == "2");
  CHECK(value(imported, "parallelism.zero") == "1");
  CHECK(value(imported, "parallelism.data") == "2");
  CHECK(value(imported, "training.recompute.mode") == "full");
  CHECK(value(imported, "training.overlap.parameters") == "true");
  CHECK(value(imported, "framework.use") == "megatron-2025");
  CHECK(value(imported, "training.kernels").empty());
  CHECK(value(imported, "batch.sequence") == "4096");
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("LLaMA-Factory's usual trainer: LoRA and gradient checkpointing by default, DeepSpeed in a file") {
  const std::string text =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\nfinetuning_type: lora\nlora_rank: 16\n"
      "lora_target: all\ncutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: true\n"
      "quantization_bit: 4\ndeepspeed: examples/deepspeed/ds_z2_config.json\n";
  CHECK(holds(refusal([&] { imported_text("lf.yaml", text, {.world = 8}); }),
              "lf.yaml:11: deepspeed: examples/deepspeed/ds_z2_config.json"));
  const auto imported = import({.files = {"lf.yaml", sample("deepspeed/ds_z2_config.json")}, .world = 8},
                               beside(std::map<std::string, std::string>{{"lf.yaml", text}}));
  CHECK(value(imported, "model.use") == "llama3-8b");
  CHECK(value(imported, "training.lora.rank") == "16");
  CHECK(value(imported, "training.lora.modules").empty());
  CHECK(value(imported, "training.frozen_precision") == "nf4-double");
  CHECK(value(imported, "training.recompute") == "full");
  CHECK(value(imported, "parallelism.zero") == "2");
  CHECK(value(imported, "batch.global") == "64");
  CHECK(value(imported, "framework.use") == "deepspeed-2023");
}

TEST_CASE("ms-swift: full fine-tuning with its own ZeRO-3") {
  const auto message = refusal([] { tuned("swift/full_sft_zero3.yaml"); });
  CHECK(holds(message, "full_sft_zero3.yaml:7: model: /path/to/Qwen2.5-VL-32B-Instruct"));
  const auto imported = tuned("swift/full_sft_zero3.yaml", {"model=qwen3-vl-32b"});
  CHECK(imported.formats == std::vector<std::string>{"swift"});
  CHECK(value(imported, "parallelism.zero") == "3");
  CHECK(value(imported, "batch.sequence") == "8192");
  CHECK(value(imported, "batch.global") == "512");  // 1 x 32 x 16
  CHECK(value(imported, "training.precision") == "bf16");
  CHECK(value(imported, "training.lora.rank").empty());
  CHECK(imported.draft.unknown().empty());
}

TEST_CASE("ms-swift's args.json: LoRA of all linear layers, DeepSpeed's configuration in place") {
  const auto imported =
      imported_text("args.json",
                    R"({"model": "Qwen/Qwen3-32B", "model_type": "qwen3", "tuner_type": "lora", "lora_rank": 8,
 "target_modules": ["all-linear"], "torch_dtype": "bfloat16", "max_length": 4096, "packing": false,
 "per_device_train_batch_size": 1, "gradient_accumulation_steps": 16, "gradient_checkpointing": true,
 "sequence_parallel_size": 2, "bf16": true, "fp16": false, "global_world_size": 8,
 "deepspeed": {"zero_optimization": {"stage": 2, "overlap_comm": false}, "bf16": {"enabled": "auto"},
               "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}})",
                    {.cluster = "dgx-h100"});
  CHECK(value(imported, "model.use") == "qwen3-32b");
  CHECK(value(imported, "training.lora.rank") == "8");
  CHECK(value(imported, "parallelism.zero") == "2");
  CHECK(value(imported, "parallelism.context") == "2");
  CHECK(value(imported, "training.context") == "all-to-all");
  CHECK(value(imported, "batch.global") == "64");  // 16 x 4 replicas
  CHECK(imported.draft[Fact::world]->value == 8);
}

TEST_CASE("Accelerate's configuration and DeepSpeed's are one scenario") {
  const std::map<std::string, std::string> texts{
      {"accelerate.yaml",
       "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\nnum_processes: 16\n"
       "num_machines: 2\nmixed_precision: bf16\n"},
      {"ds.json",
       "{\"zero_optimization\": {\"stage\": 3},\n\"bf16\": {\"enabled\": \"auto\"},\n"
       "\"train_micro_batch_size_per_gpu\": 2,\n\"gradient_accumulation_steps\": 4}"}};
  for (const auto& files : {std::vector<std::string>{"accelerate.yaml", "ds.json"}, {"ds.json", "accelerate.yaml"}}) {
    const auto imported = all_of(texts, files, {"model=llama3-8b"});
    CHECK(value(imported, "parallelism.zero") == "3");
    CHECK(value(imported, "training.precision") == "bf16");
    CHECK(value(imported, "training.gradient_precision") == "bf16");
    CHECK(value(imported, "batch.global") == "128");  // 2 x 4 x 16
    CHECK(value(imported, "cluster.nodes") == "2");
    CHECK(value(imported, "framework.use") == "deepspeed-2023");
  }
  CHECK(holds(refusal([&] { all_of(texts, {"accelerate.yaml"}, {"model=llama3-8b"}); }),
              "accelerate.yaml:3: deepspeed_config.deepspeed_config_file: ds.json"));
}

TEST_CASE("axolotl, Accelerate and DeepSpeed are one scenario, and contradict each other with both places") {
  std::map<std::string, std::string> texts{
      {"axolotl.yaml", kAxolotl + "gradient_checkpointing: true\ndeepspeed: ds.json\n"},
      {"accelerate.yaml", "distributed_type: DEEPSPEED\nnum_processes: 8\nnum_machines: 1\nmixed_precision: bf16\n"},
      {"ds.json",
       "{\"zero_optimization\": {\"stage\": 2,\n\"reduce_bucket_size\": \"auto\"},\n\"bf16\": {\"enabled\": "
       "\"auto\"},\n"
       "\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\",\n"
       "\"gradient_accumulation_steps\": \"auto\"}"}};
  const std::vector<std::string> files{"axolotl.yaml", "ds.json", "accelerate.yaml"};
  const auto imported = all_of(texts, files);
  CHECK(imported.formats == std::vector<std::string>{"axolotl", "deepspeed", "accelerate"});
  CHECK(value(imported, "model.use") == "llama3-8b");
  CHECK(value(imported, "parallelism.zero") == "2");
  CHECK(value(imported, "batch.micro") == "2");
  CHECK(value(imported, "batch.global") == "64");
  CHECK(value(imported, "framework.use") == "deepspeed-2023");
  CHECK(value(imported, "framework.bucket_parameters") == "16777216");
  CHECK(value(imported, "training.kernels") == "unfused");
  CHECK(imported.draft.unknown().empty());

  const auto with_ds = [&](const std::string& text) {
    auto changed = texts;
    changed["ds.json"] = text;
    return refusal([&] { all_of(changed, files); });
  };
  CHECK(holds(with_ds("{\"zero_optimization\": {\"stage\": 2},\n\"gradient_accumulation_steps\": 8}"),
              "ds.json:2: the number of accumulations is 8 here, and 4 by axolotl.yaml:4 gradient_accumulation_steps"));
  CHECK(holds(with_ds("{\"zero_optimization\": {\"stage\": 2},\n\"fp16\": {\"enabled\": true}}"),
              "ds.json:2: 'training.precision' is \"fp16\" here, and \"bf16\" by axolotl.yaml:6 bf16"));
  texts["accelerate.yaml"] = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n";
  CHECK(holds(refusal([&] { all_of(texts, files); }),
              "accelerate.yaml:4: 'parallelism.zero' is 3 here, and 2 by ds.json:1 zero_optimization.stage"));
}

TEST_CASE("Accelerate's FSDP: hybrid shards are groups of a node; one file may recompute where another does not") {
  const std::map<std::string, std::string> texts{
      {"fsdp.yaml",
       "distributed_type: FSDP\nnum_processes: 32\nnum_machines: 4\nmixed_precision: bf16\nfsdp_config:\n"
       "  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_activation_checkpointing: false\n"},
      {"axolotl.yaml", kAxolotl + "gradient_checkpointing: true\n"}};
  const auto imported = all_of(texts, {"fsdp.yaml", "axolotl.yaml"});
  CHECK(value(imported, "parallelism.shard") == "8");
  CHECK(value(imported, "parallelism.zero") == "3");
  CHECK(value(imported, "training.recompute") == "full");
  CHECK(value(imported, "framework.use") == "hf-2024");
}

TEST_CASE("FSDP that keeps what it has gathered shards parameters all the same") {
  for (const char* key : {"fsdp_reshard_after_forward: false", "fsdp_sharding_strategy: SHARD_GRAD_OP"}) {
    const auto imported =
        all_of({{"fsdp.yaml", std::string("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  ") + key + "\n"}},
               {"fsdp.yaml"}, {"model=llama3-8b"});
    CHECK(value(imported, "parallelism.zero") == "3");
    CHECK(value(imported, "training.fsdp.reshard_after_forward") == "false");
  }
  CHECK(holds(refusal([] {
                all_of({{"fsdp.yaml",
                         "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n"
                         "  fsdp_sharding_strategy: FULL\n"}},
                       {"fsdp.yaml"}, {"model=llama3-8b"});
              }),
              "fsdp.yaml:4: 'fsdp_config.fsdp_sharding_strategy' must be FULL_SHARD, SHARD_GRAD_OP"));
}

TEST_CASE("offloaded states of frozen models are named, and not taken; fp8 goes before the 16 bits of other words") {
  const auto frozen = axolotl("adapter: lora\nlora_r: 8\nfsdp_config:\n  offload_params: true\n");
  CHECK_FALSE(frozen.draft.has("training.offload"));
  CHECK(names(frozen.draft.unworded(), "fsdp_config.offload_params: parameters"));
  const auto narrow = all_of({{"axolotl.yaml", kAxolotl + "fp8: true\nfp8_enable_fsdp_float8_all_gather: true\n"},
                              {"accelerate.yaml", "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n"}},
                             {"axolotl.yaml", "accelerate.yaml"});
  CHECK(value(narrow, "training.precision") == "fp8");
  CHECK(value(narrow, "framework.fp8_scaling") == "tensorwise");
  CHECK(value(narrow, "framework.fp8_gather") == "true");
}

TEST_CASE("each of these files is of one format alone") {
  for (const auto& [path, format] : {std::pair("torchtitan/llama3_8b.toml", "torchtitan"),
                                     std::pair("torchtitan/deepseek_v3_671b.toml", "torchtitan"),
                                     std::pair("deepspeed/ds_z2_config.json", "deepspeed"),
                                     std::pair("deepspeed/ds_config_gpt_moe_TEMPLATE.json", "deepspeed"),
                                     std::pair("deepspeed/zero3_bf16_cpuoffload_params.json", "deepspeed"),
                                     std::pair("axolotl/fft-fsdp-16b.yaml", "axolotl"),
                                     std::pair("llamafactory/qwen3_moe_full.yaml", "llamafactory"),
                                     std::pair("swift/full_sft_zero3.yaml", "swift")}) {
    Sources sources{scenario::disk()};
    const auto all = formats_of(sources.read(sample(path)));
    REQUIRE_MESSAGE(all.size() == 1, path);
    CHECK(all.front()->name == format);
  }
}

}  // namespace rehearsal::interchange::trainers
