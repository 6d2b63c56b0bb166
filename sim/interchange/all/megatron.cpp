// Arguments of Megatron-LM as somebody types them, and as its functional tests have them: MODEL_ARGS and ENV_VARS in
// YAML. Those of NeMo among these tests set fields of a recipe by dotted names.
#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "interchange/format.hpp"
#include "interchange/megatron.hpp"
#include "interchange/megatron_write.hpp"

namespace rehearsal::interchange {
namespace {

using scenario::Node;

bool recognises(const Source& source) {
  if (source.kind != Source::Kind::arguments) return source.tree && source.find("MODEL_ARGS");
  // Arguments that any run of it has, behind whatever launches it.
  static constexpr std::array<std::string_view, 8> kWords{
      "--num-layers",           "--hidden-size",       "--num-attention-heads",        "--micro-batch-size",
      "--hybrid-layer-pattern", "--global-batch-size", "--tensor-model-parallel-size", "--use-mcore-models"};
  for (const auto& word : source.words)
    for (const auto known : kWords)
      if (word == known || word.starts_with(std::string(known) + "=")) return true;
  return false;
}

// "trainer.strategy.tensor_model_parallel_size", "model.config.num_layers".
void add_recipe(MegatronArguments& arguments, const Node& map) {
  for (const auto& [key, value] : map.entries) {
    const auto& name = key->text;
    if (name == "trainer.num_nodes")
      arguments.add_environment("NNODES", *value);
    else if (name == "trainer.devices")
      arguments.add_environment("GPUS_PER_NODE", *value);
    else if (name.starts_with("trainer.") && !name.starts_with("trainer.strategy."))
      continue;
    else if (!name.starts_with("log."))
      arguments.add(name.substr(name.rfind('.') + 1), *value, name);
  }
}

void read_tests(Sources& sources, const Source& source, Draft& draft) {
  const Node& map = *source.find("MODEL_ARGS");
  if (map.kind != Node::Kind::map) wrong(map, "MODEL_ARGS is empty: nothing is trained with it");
  MegatronArguments arguments(sources, source.name);
  arguments.typed = !map.entries.empty() && map.entries.front().key->text.starts_with("--");
  arguments.configuration = arguments.partial = !arguments.typed;
  const Node* mode = source.find("MODE");
  if (mode && mode->text == "inference") wrong(*mode, "MODE is inference: a scenario is a step of training");
  if (arguments.typed)
    add_mapping(arguments, map);
  else
    add_recipe(arguments, map);
  if (arguments.partial)
    draft.no_word(map.where(), "what the recipe sets that these change",
                  "a recipe is a program; run_config.yaml of a checkpoint has all of it");
  if (const Node* variables = source.find("ENV_VARS"); variables && variables->kind == Node::Kind::map)
    for (const auto& [key, value] : variables->entries)
      if (value->kind == Node::Kind::scalar) arguments.add_environment(key->text, *value);
  read_megatron(arguments, draft);
}

void read(Sources& sources, const Source& source, Draft& draft) {
  if (source.kind != Source::Kind::arguments) return read_tests(sources, source, draft);
  MegatronArguments arguments(sources, source.name);
  arguments.typed = true;
  add_command(arguments, source.words);
  read_megatron(arguments, draft);
}

}  // namespace

void register_megatron(Registry& registry) {
  registry.add({.name = "megatron",
                .title = "arguments of Megatron-LM",
                .summary = "arguments of Megatron-LM behind --, or MODEL_ARGS of its tests: all but the machine",
                .recognises = recognises,
                .read = read,
                .write = write_megatron});
}

}  // namespace rehearsal::interchange
