// axolotl's YAML (axolotl/utils/schemas): a fine-tuning by transformers' Trainer and PEFT, with FSDP or DeepSpeed.
#include <fmt/format.h>

#include <algorithm>

#include "interchange/huggingface/trainer.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

bool recognises(const Source& source) {
  return source.has({"base_model"}) && (source.find("micro_batch_size") || source.find("sequence_len") ||
                                        source.find("datasets") || source.find("pretraining_dataset"));
}

class Axolotl {
 public:
  Axolotl(Sources& sources, const Source& source, ScenarioDraft& draft)
      : sources_(sources), source_(source), draft_(draft), root_(draft, source.tree) {}

  void read() {
    if (const auto name = root_.text({"base_model"})) say_model(draft_, *name, sources_.files());
    root_.say_integer("batch.sequence", {"sequence_len"});
    if (const auto packs = root_.boolean({"sample_packing"})) say_packing(draft_, *packs);
    read_training_arguments(root_, draft_);
    if (const auto name = root_.text({"optimizer"})) say_optimizer(draft_, *name);
    adapters();
    recomputation();
    sharding();
    assume_trainer(draft_, kernels());
    attention();
    if (const auto compile = root_.text({"torch_compile"}); compile && compile->value != "auto")
      draft_.say("framework.compiled", boolean_of(compile->value).value_or(false), *compile->at, compile->word);
    root_.no_word("rl", {}, "taken as supervised training");
    root_.no_word("unfrozen_parameters", {}, "all parameters learn");
    root_.no_word("neat_packing");
    ignore_training_arguments(root_);
    root_.ignore({"base_model_*",
                  "model_type",
                  "tokenizer_*",
                  "processor_type",
                  "is_*",
                  "chat_template*",
                  "plugins",
                  "special_tokens",
                  "tokens",
                  "eot_tokens",
                  "shuffle_*",
                  "test_datasets",
                  "skip_prepare_dataset",
                  "pretraining_dataset",
                  "train_on_inputs",
                  "group_by_length",
                  "pad_to_sequence_len",
                  "strict",
                  "sample_packing_*",
                  "eval_sample_packing",
                  "excess_length_strategy",
                  "early_stopping_*",
                  "use_*",
                  "mlflow_*",
                  "comet_*",
                  "trackio_*",
                  "gradio_*",
                  "cosine_*",
                  "loss_watchdog_*",
                  "experimental_*",
                  "debug",
                  "gpu_memory_limit",
                  "device_map",
                  "max_memory",
                  "low_cpu_mem_usage",
                  "noisy_embedding_alpha",
                  "neftune_noise_alpha",
                  "revision_of_model",
                  "trust_remote_code",
                  "hf_use_auth_token",
                  "profiler_*",
                  "gc_steps",
                  "axolotl_config_path",
                  "tiled_mlp*",
                  "dpo_*",
                  "kto_*",
                  "orpo_*",
                  "rl_*",
                  "batch_size",
                  "embeddings_skip_upcast",
                  "flash_attn_*",
                  "flex_attn_*",
                  "fix_untrained_tokens",
                  "roles_to_train",
                  "bos_token_id"});
    root_.finish();
  }

 private:
  void adapters() {
    const auto kind = root_.text({"adapter"});
    const auto rank = root_.integer({"lora_r"});
    const auto modules = root_.list({"lora_target_modules"});
    const auto linear = root_.boolean({"lora_target_linear"});
    const auto dropout = root_.number({"lora_dropout"});
    const auto saved = root_.list({"lora_modules_to_save"});
    const auto eight = root_.boolean({"load_in_8bit"}), four = root_.boolean({"load_in_4bit"});
    root_.ignore({"lora_alpha", "lora_*", "peft_*", "loraplus_*", "relora_*", "bnb_config_kwargs", "gptq*"});
    if (!kind) return;
    if (kind->value != "lora" && kind->value != "qlora")
      draft_.no_word(kind->at->where(), kind->word + ": " + kind->value, "taken as lora");
    if (rank)
      draft_.say("training.lora.rank", rank->value, *rank->at, rank->word);
    else
      draft_.derive("training.lora.rank", 8, kind->word + ": PEFT's default rank");
    if (modules && !(linear && linear->value)) say_adapted(draft_, *modules);
    if (dropout) draft_.say("framework.adapter_dropout", dropout->value > 0, *dropout->at, dropout->word);
    if (saved) draft_.say("training.lora.ends", true, *saved->at, saved->word);
    if (eight && eight->value)
      say_frozen(draft_, 8, false, *eight->at, eight->word);
    else if (four && four->value)
      say_frozen(draft_, 4, true, *four->at, four->word);
    else if (kind->value == "qlora")
      say_frozen(draft_, 4, true, *kind->at, kind->word + ": qlora");
  }

  void recomputation() {
    if (const auto again = root_.text({"gradient_checkpointing"})) {
      const bool away = again->value == "offload" || again->value == "offload_disk" || again->value == "unsloth";
      say_recomputation(draft_, {away || boolean_of(again->value).value_or(false), again->at, again->word});
      if (away)
        draft_.say("training.offload.activations", again->value == "offload_disk" ? "nvme" : "host", *again->at,
                   again->word + ": " + again->value);
    }
    const auto away = root_.text({"activation_offloading"});
    if (!away || boolean_of(away->value) == std::optional(false)) return;
    const Json* again = draft_.find("training.recompute");
    const bool checkpoints = again && again->text() == "full";
    const std::string key = checkpoints ? "training.offload.activations" : "training.offload.activations.share";
    const std::string tier = away->value == "disk" ? "nvme" : "host";
    draft_.say(key, checkpoints ? Json(tier) : Json(1), *away->at, away->word);
  }

  void sharding() {
    if (const auto words = root_.list({"fsdp"})) read_fsdp_words(draft_, *words);
    if (auto fsdp = root_.below("fsdp_config"); fsdp.map()) read_fsdp(std::move(fsdp), draft_);
    if (const auto file = root_.node({"deepspeed"})) read_deepspeed_reference(sources_, source_, draft_, *file);
    root_.ignore({"fsdp_version", "fsdp_final_state_dict_type"});
    root_.say(Fact::shards, {"dp_shard_size"});
    root_.say(Fact::replicas, {"dp_replicate_size"});
    root_.say_integer("parallelism.tensor", {"tensor_parallel_size"});
    root_.say_integer("parallelism.expert", {"expert_parallel_size"});
    const auto context = root_.integer({"context_parallel_size", "sequence_parallel_degree"});
    if (!context || context->value == 1) return;
    draft_.say("parallelism.context", context->value, *context->at, context->word);
    draft_.derive("training.context", "ring", context->word + ": ring-flash-attn");
  }

  // Liger's and cut cross-entropy's; whether all elementwise operations are kernels of their own no more.
  bool kernels() {
    const auto on = [&](std::string_view key) {
      const auto said = root_.boolean({key});
      return said && said->value ? said : std::nullopt;
    };
    if (const auto loss = on("liger_fused_linear_cross_entropy"))
      draft_.say("framework.loss", "linear-fused", *loss->at, loss->word);
    else if (const auto entropy = on("liger_cross_entropy"))
      draft_.say("framework.loss", "fused", *entropy->at, entropy->word);
    if (const auto plugins = root_.list({"plugins"}))
      for (const Node* one : plugins->value)
        if (one->text.find("CutCrossEntropy") != one->text.npos)
          draft_.say("framework.loss", "linear-fused", *one, "plugins: logits are never whole");
    const auto norm = on("liger_rms_norm"), glu = on("liger_glu_activation"), rope = on("liger_rope");
    root_.ignore({"liger_*", "cut_cross_entropy"});
    if (norm && glu) draft_.say("training.kernels", "fused", *norm->at, norm->word + " and " + glu->word);
    return norm && glu;
  }

  void attention() {
    if (const auto how = root_.text({"attn_implementation"})) return say_attention(draft_, *how);
    for (const char* key :
         {"flash_attention", "sdp_attention", "xformers_attention", "flex_attention", "sage_attention"})
      if (const auto on = root_.boolean({key}); on && on->value)
        draft_.say("training.attention", "flash", *on->at, on->word);
    if (const auto eager = root_.boolean({"eager_attention"}); eager && eager->value)
      draft_.say("training.attention", "unfused", *eager->at, eager->word);
  }

  Sources& sources_;
  const Source& source_;
  ScenarioDraft& draft_;
  Keys root_;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  Axolotl axolotl(sources, source, draft);
  axolotl.read();
}

}  // namespace

void register_axolotl(Registry& registry) {
  registry.add({.name = "axolotl",
                .title = "a configuration of axolotl",
                .summary = "axolotl's YAML: model by name, batch, adapters, FSDP or DeepSpeed",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
