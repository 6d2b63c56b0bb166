// A configuration of NeMo 1 (examples/nlp/language_modeling/conf/megatron_gpt_config.yaml, hparams.yaml of its runs): a
// trainer of Lightning, and a model with fields of Megatron-Core beside some names of NeMo's own.
#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/megatron/arguments.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

bool recognises(const Source& source) {
  return source.tree && (source.find("trainer.devices") || source.find("trainer.num_nodes")) &&
         (source.find("model.tensor_model_parallel_size") || source.find("model.micro_batch_size"));
}

// nemo/collections/nlp/models/language_modeling/megatron_base_model.py, build_transformer_config.
constexpr std::array<std::array<std::string_view, 2>, 8> kNames{{
    {"activations_checkpoint_granularity", "recompute_granularity"},
    {"activations_checkpoint_method", "recompute_method"},
    {"activations_checkpoint_num_layers", "recompute_num_layers"},
    {"bias", "add_bias_linear"},
    {"ub_tp_comm_overlap", "tp_comm_overlap"},
    {"overlap_p2p_comm", "overlap_p2p_comm"},
    {"encoder_seq_length", "seq_length"},
    {"use_flash_attention", "use_flash_attn"},
}};

class NemoModel {
 public:
  NemoModel(MegatronArguments& arguments, ScenarioDraft& draft) : arguments_(arguments), draft_(draft) {}

  void read(const Node& model) {
    for (const auto& [key, value] : model.entries) {
      const auto word = "model." + key->text;
      if (is_none(*value)) continue;
      if (key->text == "activation")
        activation(*value, word);
      else if (key->text == "normalization")
        set("normalization", value->text == "rmsnorm" ? "RMSNorm" : "LayerNorm", *value, word);
      else if (key->text == "optim")
        optimizer(*value);
      else if (key->text == "fp8")
        eight_bits(*value, model);
      else if (value->kind != Node::Kind::map && key->text != "fp8_e4m3" && key->text != "fp8_hybrid")
        arguments_.add(name_of(key->text), *value, word);
    }
  }

  // "bf16", "bf16-mixed", 16, "16-mixed", 32.
  void precision(const Node& value) {
    const auto& text = value.text;
    if (text.starts_with("bf16"))
      set("bf16", "true", value, "trainer.precision");
    else if (text.starts_with("16"))
      set("fp16", "true", value, "trainer.precision");
  }

 private:
  static std::string_view name_of(std::string_view name) {
    for (const auto& [theirs, ours] : kNames)
      if (theirs == name) return ours;
    return name;
  }
  void set(const char* name, std::string text, const Node& at, const std::string& word) {
    arguments_.add(name, *arguments_.sources().scalar(std::move(text), false, *at.origin, at.line, at.column), word);
  }

  void activation(const Node& value, const std::string& word) {
    const auto& text = value.text;
    if (text.ends_with("swiglu"))
      set("swiglu", "true", value, word);
    else if (text.ends_with("geglu"))
      set("quick_geglu", "true", value, word);
    else if (text == "squared-relu")
      set("squared_relu", "true", value, word);
    else if (text != "gelu")
      draft_.no_word(value.where(), word + " " + text, "taken as gelu");
  }

  void eight_bits(const Node& value, const Node& model) {
    if (boolean_of(value.text) == false) return;
    const Node* narrow = model.find("fp8_e4m3");
    set("fp8", narrow && boolean_of(narrow->text) == true ? "e4m3" : "hybrid", value, "model.fp8");
  }

  // Apex' distributed Adam is the distributed optimizer by another name.
  void optimizer(const Node& map) {
    if (map.kind != Node::Kind::map) return;
    const Node* name = map.find("name");
    const bool distributed =
        name && (name->text.find("distributed") != std::string::npos || name->text == "mcore_distributed_optim");
    if (distributed) set("use_distributed_optimizer", "true", *name, "model.optim.name");
    if (name && name->text.find("adam") == std::string::npos && !distributed)
      draft_.no_word(name->where(), "model.optim.name " + name->text, "taken as adamw");
    for (const auto& [theirs, ours] : {std::pair("overlap_grad_sync", "overlap_grad_reduce"),
                                       std::pair("overlap_param_sync", "overlap_param_gather")})
      if (const Node* value = map.find(theirs)) arguments_.add(ours, *value, std::string("model.optim.") + theirs);
    if (const Node* type = map.find("grad_sync_dtype"); type && type->text == "bf16")
      set("grad_reduce_in_bf16", "true", *type, "model.optim.grad_sync_dtype");
  }

  MegatronArguments& arguments_;
  ScenarioDraft& draft_;
};

void read(Sources& sources, const Source& source, ScenarioDraft& draft) {
  MegatronArguments arguments(sources, source.name);
  arguments.configuration = true, arguments.listed = Keys::Listed::everything;
  if (const Node* nodes = source.find("trainer.num_nodes")) arguments.add_environment("NNODES", *nodes);
  if (const Node* devices = source.find("trainer.devices")) arguments.add_environment("GPUS_PER_NODE", *devices);
  NemoModel model(arguments, draft);
  if (const Node* precision = source.find("trainer.precision")) model.precision(*precision);
  const Node* map = source.find("model");
  if (!map || map->kind != Node::Kind::map)
    throw UserError({{map ? map->where() : Location{source.name, 0, 0}, "'model' must be a mapping"}});
  model.read(*map);
  read_megatron(arguments, draft);
}

}  // namespace

void register_nemo(Registry& registry) {
  registry.add({.name = "nemo",
                .title = "a configuration of NeMo",
                .summary = "a YAML of NeMo 1 with Megatron: all but the machine, also how many GPUs",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
