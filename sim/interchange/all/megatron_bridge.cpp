// run_config.yaml of a checkpoint of Megatron-Bridge: sections of fields, of which some say the class
// that they are of. What a file of overrides leaves out is in a recipe, which is a program.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "interchange/format.hpp"
#include "interchange/keys.hpp"
#include "interchange/megatron/arguments.hpp"
#include "interchange/names.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

// Sections in the order in which they count: training sets the precision of `mixed_precision` everywhere, and the
// dataset's length is what is trained with.
constexpr std::array<std::string_view, 7> kSections{"mixed_precision", "comm_overlap", "dataset",  "train",
                                                    "model",           "ddp",          "optimizer"};

// A log has the configuration between two lines.
constexpr std::string_view kBegin = "------- Task Configuration -------\n", kEnd = "\n------";

bool recognises(const Source& source) {
  if (!source.tree && source.kind == Source::Kind::text) return source.text.find(kBegin) != std::string::npos;
  if (!source.tree || source.tree->kind != Node::Kind::map || !source.find("model")) return false;
  if (const Node* target = source.find("_target_"); target && target->text.find("ConfigContainer") != std::string::npos)
    return true;
  const bool trains = source.find("train.global_batch_size") || source.find("train.micro_batch_size") ||
                      source.find("train.train_iters");
  const Node* model = source.find("model");
  return trains && model->kind == Node::Kind::map &&
         (model->find("tensor_model_parallel_size") || model->find("num_layers") ||
          (model->find("_target_") && model->find("_target_")->text.find("megatron") != std::string::npos));
}

// megatron/bridge/training/mixed_precision.py: names of recipes.
void precision(MegatronArguments& arguments, const Node& name) {
  const auto has = [&name](std::string_view part) { return name.text.find(part) != std::string::npos; };
  const auto& yes = arguments.value("true", name.line);
  const auto set = [&](const char* key, const char* value) {
    arguments.add(key, arguments.value(value, name.line), "mixed_precision");
  };
  if (has("bf16") || has("nano")) arguments.add("bf16", yes, "mixed_precision");
  if (name.text.starts_with("fp16")) arguments.add("fp16", yes, "mixed_precision");
  if (has("nvfp4")) set("fp4", "e2m1");
  if (has("fp8")) set("fp8", "hybrid");
  if (has("current")) set("fp8_recipe", "tensorwise");
  if (has("mxfp8")) set("fp8_recipe", "mxfp8");
  if (has("subchannel") || has("blockwise")) set("fp8_recipe", "blockwise");
}

void add_section(MegatronArguments& arguments, std::string_view section, const Node& map) {
  for (const auto& [key, value] : map.entries) {
    const auto& name = key->text;
    const auto word = fmt::format("{}.{}", section, name);
    // The model's own limit of a sequence, where the dataset says how long sequences are.
    if (section == "model" && name == "seq_length" && arguments.find("seq_length")) {
      arguments.add_default("max_position_embeddings", *value, word);
      continue;
    }
    if (section == "dataset" && name != "sequence_length" && name != "seq_length") continue;
    arguments.add_default(section == "dataset" ? "seq_length" : name, *value, word);
  }
}

void read_adapters(MegatronArguments& arguments, const Node& peft, ScenarioDraft& draft) {
  if (peft.kind != Node::Kind::map) return;
  const Node* dim = peft.find("dim");
  const Node* target = peft.find("_target_");
  if (!dim || (target && target->text.find("LoRA") == std::string::npos)) {
    draft.no_word(peft.where(), fmt::format("peft {}", target ? target->text : ""), "everything is taken to learn");
    return;
  }
  arguments.add("lora_dim", *dim, "peft.dim");
  if (const Node* modules = peft.find("target_modules"))
    arguments.add("lora_target_modules", *modules, "peft.target_modules");
}

// The configuration of a log as a file of its own, whose lines have the numbers that they have there.
const Source& of_log(Sources& sources, const Source& log) {
  if (log.text.find(kBegin) == std::string::npos)
    throw UserError({{{log.name, 0, 0}, "is no configuration of Megatron-Bridge, and no log that has one"}});
  const auto begin = log.text.find(kBegin) + kBegin.size();
  const auto lines = std::count(log.text.begin(), log.text.begin() + std::ptrdiff_t(begin), '\n');
  return sources.text(log.name, std::string(std::size_t(lines), '\n') +
                                    log.text.substr(begin, log.text.find(kEnd, begin) - begin) + "\n");
}

void read(Sources& sources, const Source& file, ScenarioDraft& draft) {
  const Source& source = file.tree ? file : of_log(sources, file);
  if (!source.tree)
    throw UserError({{{source.name, 0, 0}, "the configuration of this log is no YAML; is all of it there?"}});
  MegatronArguments arguments(sources, source.name);
  arguments.configuration = true;
  const Node* root = source.find("_target_");
  if (root || source.find("model._target_")) arguments.listed = Keys::Listed::everything;
  for (const auto section : kSections) {
    const Node* map = source.find(section);
    if (!map || is_none(*map)) continue;
    if (map->kind == Node::Kind::map)
      add_section(arguments, section, *map);
    else if (section == "mixed_precision" && map->kind == Node::Kind::scalar)
      precision(arguments, *map);
  }
  for (const char* name : {"use_torch_fsdp2", "use_tp_pp_dp_mapping"})
    if (const Node* value = source.find(std::string("dist.") + name))
      arguments.add_default(name, *value, std::string("dist.") + name);
  if (const Node* peft = source.find("peft")) read_adapters(arguments, *peft, draft);
  // The size of the padded vocabulary is the model's, where it is not to be padded.
  if (const Node* tokenizer = source.find("tokenizer.vocab_size"))
    arguments.add_default("vocab_size", *tokenizer, "tokenizer.vocab_size");
  arguments.partial = arguments.listed == Keys::Listed::what_is_set;
  if (arguments.partial)
    draft.no_word(source.tree->where(), "what the recipe sets that this file changes",
                  "a recipe is a program; run_config.yaml of a checkpoint has all of it");
  read_megatron(arguments, draft);
}

}  // namespace

void register_megatron_bridge(Registry& registry) {
  registry.add({.name = "megatron-bridge",
                .title = "a configuration of Megatron-Bridge",
                .summary = "run_config.yaml of a checkpoint of Megatron-Bridge, or its log: all but the machine",
                .recognises = recognises,
                .read = read});
}

}  // namespace rehearsal::interchange
