// Names of arguments: argparse's own, and what else files call them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "interchange/megatron/arguments.hpp"

namespace rehearsal::interchange {

using scenario::Node;

namespace {

struct ArgumentAlias {
  std::string_view name, of;
  bool inverted = false;
};

// `dest` and `store_false` of megatron/training/arguments.py; older names of arguments that were renamed; fields of
// TransformerConfig, OptimizerConfig and DistributedDataParallelConfig, which Megatron-Bridge and NeMo write, where
// they are called otherwise (core_transformer_config_from_args).
constexpr std::array kArgumentAliases{
    ArgumentAlias{"no_gradient_accumulation_fusion", "gradient_accumulation_fusion", true},
    ArgumentAlias{"no_masked_softmax_fusion", "masked_softmax_fusion", true},
    ArgumentAlias{"no_bias_gelu_fusion", "bias_gelu_fusion", true},
    ArgumentAlias{"no_bias_swiglu_fusion", "bias_swiglu_fusion", true},
    ArgumentAlias{"no_bias_dropout_fusion", "bias_dropout_fusion", true},
    ArgumentAlias{"no_rope_fusion", "apply_rope_fusion", true},
    ArgumentAlias{"disable_bias_linear", "add_bias_linear", true},
    ArgumentAlias{"no_overlap_p2p_communication", "overlap_p2p_comm", true},
    ArgumentAlias{"overlap_p2p_communication_warmup_flush", "overlap_p2p_comm_warmup_flush"},
    ArgumentAlias{"no_scatter_gather_tensors_in_pipeline", "scatter_gather_tensors_in_pipeline", true},
    ArgumentAlias{"no_position_embedding", "add_position_embedding", true},
    ArgumentAlias{"disable_tp_comm_overlap_ag", "tp_comm_overlap_ag", true},
    ArgumentAlias{"disable_tp_comm_overlap_rs", "tp_comm_overlap_rs", true},
    ArgumentAlias{"disable_tp_comm_bulk_dgrad", "tp_comm_bulk_dgrad", true},
    ArgumentAlias{"disable_tp_comm_bulk_wgrad", "tp_comm_bulk_wgrad", true},
    ArgumentAlias{"bert_no_binary_head", "bert_binary_head", true},
    ArgumentAlias{"fp8_format", "fp8"},
    ArgumentAlias{"fp4_format", "fp4"},
    ArgumentAlias{"microbatch_group_size_per_virtual_pipeline_stage", "microbatch_group_size_per_vp_stage"},
    ArgumentAlias{"use_custom_fsdp", "use_megatron_fsdp"},
    ArgumentAlias{"hybrid_override_pattern", "hybrid_layer_pattern"},
    ArgumentAlias{"cuda_graph_scope", "cuda_graph_modules"},
    ArgumentAlias{"linear_attention_type", "experimental_attention_variant"},
    ArgumentAlias{"moe_deepep_num_sms", "moe_flex_dispatcher_num_sms"},
    ArgumentAlias{"moe_hybridep_num_sms", "moe_flex_dispatcher_num_sms"},
    ArgumentAlias{"num_moe_experts", "num_experts"},
    ArgumentAlias{"share_embeddings_and_output_weights", "untie_embeddings_and_output_weights", true},
    ArgumentAlias{"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    ArgumentAlias{"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
    ArgumentAlias{"layernorm_epsilon", "norm_epsilon"},
    ArgumentAlias{"layernorm_zero_centered_gamma", "apply_layernorm_1p"},
    ArgumentAlias{"grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"},
    ArgumentAlias{"bucket_size", "ddp_bucket_size"},
    ArgumentAlias{"average_in_collective", "ddp_average_in_collective"},
};

const ArgumentAlias* alias_of(std::string_view name) {
  const auto found =
      std::find_if(kArgumentAliases.begin(), kArgumentAliases.end(), [name](const auto& a) { return a.name == name; });
  return found == kArgumentAliases.end() ? nullptr : &*found;
}

std::string argument_name(std::string_view spelled) {
  while (spelled.starts_with('-')) spelled.remove_prefix(1);
  std::string name(spelled);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void put_argument(Node& map, Node* key, const Node& value) {
  for (auto& entry : map.entries)
    if (entry.key->text == key->text) {
      entry = {key, &value};
      return;
    }
  map.entries.push_back({key, &value});
  map.size += value.size + 1;
}

}  // namespace

MegatronArguments::MegatronArguments(Sources& sources, const std::string& origin)
    : sources_(sources),
      origin_(origin),
      values_(sources.make(Node::Kind::map, origin, 0, 0)),
      environment_(sources.make(Node::Kind::map, origin, 0, 0)) {}

const Node& MegatronArguments::value(std::string text, int line) {
  return *sources_.scalar(std::move(text), false, origin_, line, line > 0 ? 1 : 0);
}

void MegatronArguments::add(std::string_view spelled, const Node& value, const std::string& word) {
  auto name = argument_name(spelled);
  const Node* of = &value;
  if (const auto* alias = alias_of(name)) {
    name = alias->of;
    if (alias->inverted && !is_none(value)) {
      const auto yes = boolean_of(value.text);
      if (value.kind != Node::Kind::scalar || !yes)
        wrong(value, fmt::format("'{}' must be true or false; found {}", word, scenario::flow_text(value)));
      of = sources_.scalar(*yes ? "false" : "true", false, *value.origin, value.line, value.column);
    }
  }
  words_[name] = word;
  put_argument(*values_, sources_.scalar(name, true, *value.origin, value.line, value.column), *of);
}

void MegatronArguments::add_default(std::string_view spelled, const Node& value, const std::string& word) {
  const auto name = argument_name(spelled);
  const auto* alias = alias_of(name);
  const Node* there = find(alias ? alias->of : name);
  if (!there || is_none(*there)) add(spelled, value, word);
}

void MegatronArguments::add_environment(std::string_view variable, const Node& value) {
  put_argument(*environment_, sources_.scalar(std::string(variable), true, *value.origin, value.line, value.column),
               value);
}

std::string MegatronArguments::spelled(std::string_view name) const {
  if (const auto found = words_.find(name); found != words_.end()) return found->second;
  if (!typed) return std::string(name);
  std::string word = "--" + std::string(name);
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

void add_mapping(MegatronArguments& arguments, const Node& map) {
  for (const auto& [key, value] : map.entries) {
    // "[a b c]" is what a shell is to see as several words.
    const Node* of = value;
    if (value->kind == Node::Kind::scalar && value->text.find(' ') != std::string::npos &&
        (value->text.starts_with('[') || value->text.find_first_not_of("0123456789 ") == std::string::npos)) {
      auto* list = arguments.sources().make(Node::Kind::sequence, *value->origin, value->line, value->column);
      std::string word;
      for (const char c : value->text + " ")
        if (c == ' ' || c == '[' || c == ']') {
          if (!word.empty())
            list->items.push_back(arguments.sources().scalar(word, false, *value->origin, value->line, value->column));
          word.clear();
        } else {
          word += c;
        }
      list->size = list->items.size() + 1;
      of = list;
    }
    arguments.add(key->text, *of, key->text);
  }
}

}  // namespace rehearsal::interchange
